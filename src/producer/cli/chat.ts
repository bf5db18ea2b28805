import { thereIsNo } from '../../shared/base/nearest.ts';
import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { runRequest } from '../../shared/contract/run.ts';
import type { Millrace } from '../client/millrace.ts';
import { runChatSession, invite, Interrupts } from './chat/chat-session.ts';
import { OutageWatch } from './chat/outage-watch.ts';
import { newThreadId, Talk } from './chat/talk.ts';
import { TypedLines } from './chat/typed-lines.ts';
import { decider, openClient, remoteOf } from './options/open-client.ts';
import { choice, command, flag, text, value, type ValuesOf } from './options/command.ts';
import { examples, type Cli, type ExitCode, shownJson } from './cli.ts';
import { positiveNumber, wholeNumber } from './options/arguments.ts';
import { callOf } from './show/call-of.ts';
import { ChatPrinter } from './show/chat-printer.ts';
import { itemText } from './show/thread-item.ts';
import type { ThreadItem } from '../../shared/contract/thread/thread-items.ts';
import { maxMessages } from '../client/threads.ts';

const maxLast = 1_000;

const { options: busyChoices } = runRequest.shape.onBusy.unwrap();
const options = [
  text('--thread <id>', 'go on with this thread, or begin it (default: a new one)'),
  value('--max-cost <usd>', 'spend no more than this on each answer', positiveNumber),
  choice('--busy <what>', 'what becomes of a message while an answer is under way (default: steer)', busyChoices),
  value('--last <n>', 'show the last messages of the thread first', wholeNumber(1, maxLast)),
  flag('--json', 'print one event a line'),
];
type Options = ValuesOf<typeof options>;

export const addChat = command('chat <agent>', {
  description: 'Talk to an agent, line by line, on one thread.',
  options,
  help:
    examples(
      'millrace chat support',
      'millrace chat support --thread customer-42 --last 10',
      String.raw`printf 'Where is order 7?\nAnd order 8?\n' | millrace chat support --max-cost 0.05`,
    ) +
    '\n\n/help in the chat lists its commands. Ctrl-C stops the answer under way, twice it leaves.' +
    '\nFrom a pipe each line waits for the answer before it, unless --busy is given; it ends after the last answer.',
  work: chat,
});

async function chat(cli: Cli, agent: string, asked: Options): Promise<ExitCode> {
  let watch: OutageWatch | undefined;
  await using mill = openClient(cli, () => watch?.suspect());
  const thread = asked.thread ?? newThreadId();
  await checkThread(mill, agent, thread);
  const json = asked.json === true;

  const interrupts = new Interrupts();
  const printer = new ChatPrinter(cli, json);
  using lines = new TypedLines(cli.stdin, json || !cli.stdout.isTTY ? cli.stderr : cli.stdout, {
    onInterrupt: () => interrupt(),
    makeRoom: () => printer.endLine(),
  });
  const note = (text: string) => lines.show(() => printer.note(text));
  watch = new OutageWatch(remoteOf(cli) ? 'The producer' : 'Redis', () => mill.agents(), note, interrupts.ending);
  const talk: Talk = new Talk(thread, {
    mill,
    watch,
    by: decider(cli, undefined),
    request: requestOf(agent, asked),
    onRun: () => lines.show(() => printer.begin()),
    onEvent: (event) => lines.show(() => printer.print(event)),
    onNote: note,
    onChange: () => invite({ talk, lines }),
    stop: interrupts.ending,
  });
  const interrupt = () => interrupts.press({ talk, note, lines });
  const onSignal = () => (cli.interrupted.reason === 'SIGINT' ? interrupt() : interrupts.leave());
  cli.interrupted.addEventListener('abort', onSignal, { once: true });

  note(`Thread ${thread}. /help lists the commands.`);
  if (asked.last !== undefined) await showLast(cli, mill, thread, asked.last, json);
  const isEager = lines.isTerminal || asked.busy !== undefined;
  const code = await runChatSession({ talk, lines, note, interrupts, isEager });
  const { current } = talk;
  cli.interrupted.removeEventListener('abort', onSignal);
  interrupts.leave();
  lines[Symbol.dispose]();
  if (current !== undefined)
    note(`The answer continues: ${callOf(cli)} tail ${current}   Stop it: ${callOf(cli)} cancel ${current}`);
  note(`Go on with this thread: ${callOf(cli)} chat ${agent} --thread ${talk.thread}`);
  return code;
}

/** Checks at the start what every message would be refused for. Throws `validation` and `invalid_id`. */
async function checkThread(mill: Millrace, agent: string, threadId: string): Promise<void> {
  const known = (await mill.agents()).map(({ id }) => id);
  if (known.length > 0 && !known.includes(agent)) {
    throw new RunError('validation', thereIsNo('agent', agent, known), {
      details: [{ path: 'agent', message: 'is not a known agent' }],
    });
  }
  const owner = (await unlessMissing(mill.threads.get(threadId)))?.agentId;
  if (owner === undefined || owner === agent) return;
  throw new RunError('validation', `thread ${threadId} belongs to agent ${owner}, not to ${agent}`);
}

async function unlessMissing<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof RunError && error.code === 'not_found') return undefined;
    throw error;
  }
}

async function showLast(cli: Cli, mill: Millrace, thread: string, count: number, json: boolean): Promise<void> {
  for (const item of await lastMessages(mill, thread, count))
    cli.stdout.write(json ? shownJson(item) : itemText(cli.stdout, item));
}

function requestOf(
  agent: string,
  { busy = 'steer', maxCost }: Options,
): ConstructorParameters<typeof Talk>[1]['request'] {
  return defined({ agent, onBusy: busy, budget: maxCost === undefined ? undefined : { maxCostUsd: maxCost } });
}

/** The last messages of a thread, oldest first, without what was done in between. None for a thread that there is not. */
async function lastMessages(mill: Millrace, thread: string, count: number): Promise<readonly ThreadItem[]> {
  const found: ThreadItem[] = [];
  let before: number | undefined;
  do {
    const range = defined({ order: 'desc', limit: maxMessages, before });
    const page = await unlessMissing(mill.threads.messages(thread, range));
    found.push(...(page?.messages ?? []).filter(({ kind }) => kind === 'message'));
    before = page?.next;
  } while (before !== undefined && found.length < count);
  return found.slice(0, count).toReversed();
}
