import { asRunError, assertNever, RunError } from '../../../shared/base/errors.ts';
import { approval, denial } from '../../client/verdicts.ts';
import { exitCodeFor, exitCodes, type ExitCode } from '../cli.ts';
import { commandOf, helpLines, type Command } from './command.ts';
import type { Interrupts } from './interrupts.ts';
import type { Talk } from './talk.ts';
import type { TypedLines } from './typed-lines.ts';

/** What a conversation is made of. */
export interface ChatSession {
  readonly talk: Talk;
  readonly lines: TypedLines;
  readonly note: (text: string) => void;
  readonly interrupts: Interrupts;
  /** Lines take effect as they come, also while an answer is under way; else each waits for what was before it. */
  readonly isEager: boolean;
}

/**
 * Takes line after line until there is none, `/quit`, or an interrupt. Where stdin is no terminal it then waits for the last answer,
 * and the exit code is that of its run.
 */
export async function runChatSession(conversation: ChatSession): Promise<ExitCode> {
  const { talk, lines, interrupts } = conversation;
  for (;;) {
    invite(conversation);
    const line = await lines.next(interrupts.reading);
    if (line === undefined) break;
    interrupts.forget();
    if ((await obey(line, conversation)) === 'quit') break;
  }
  if (!lines.isTerminal) await lastAnswer(conversation);
  if (interrupts.leaving.aborted) return exitCodes.interrupted;
  return lines.isTerminal ? exitCodes.ok : talk.outcome;
}

/** Shows a prompt where it is the user's turn. */
export function invite({ talk, lines }: Pick<ChatSession, 'talk' | 'lines'>): void {
  const isTurn = talk.current === undefined || talk.waitsForPeople;
  lines.ask(talk.question ? 'answer> ' : isTurn ? '> ' : undefined);
}

async function lastAnswer({ talk, note, interrupts: { leaving } }: ChatSession): Promise<void> {
  const hasEnded = () => talk.current === undefined;
  await talk.until(() => hasEnded() || talk.waitsForPeople, leaving);
  if (!hasEnded() && !leaving.aborted)
    note('The input has ended, and the answer waits for people: see millrace approvals');
  await talk.until(hasEnded, leaving);
}

/** Prints what is wrong with a line, and goes on with the next. */
async function obey(line: string, conversation: ChatSession): Promise<'quit' | undefined> {
  const { talk, note, isEager, interrupts } = conversation;
  try {
    const command = commandOf(line);
    if (!isEager) await talk.until(isTime(command, talk), interrupts.reading);
    return interrupts.reading.aborted ? undefined : await act(command, conversation);
  } catch (error) {
    if (interrupts.leaving.aborted) return undefined;
    const { code, message } = asRunError(error);
    talk.outcome = exitCodeFor(error);
    note(`${code}: ${message}`);
    return undefined;
  }
}

/** When a line from a pipe may take effect. */
function isTime({ kind }: Command, talk: Talk): () => boolean {
  const isIdle = () => talk.current === undefined;
  if (kind === 'cancel') return () => true;
  if (kind === 'send') return () => isIdle() || talk.question !== undefined;
  if (kind === 'approve' || kind === 'deny') return () => isIdle() || talk.waitsForPeople;
  return isIdle;
}

async function act(command: Command, { talk, note }: ChatSession): Promise<'quit' | undefined> {
  switch (command.kind) {
    case 'nothing':
      return undefined;
    case 'send':
      await talk.send(command.text);
      return undefined;
    case 'approve':
      await talk.decide((run) => approval(run, {}));
      return undefined;
    case 'deny':
      await talk.decide((run) => denial(run, command.reason === '' ? {} : { reason: command.reason }));
      return undefined;
    case 'cancel':
      await talk.cancel();
      return undefined;
    case 'title':
      await talk.name(command.text);
      return undefined;
    case 'new':
      if (talk.current !== undefined) throw new RunError('concurrent_run', 'an answer is under way: /cancel it first');
      note(`Thread ${talk.begin()}.`);
      return undefined;
    case 'help':
      helpLines.forEach((text) => note(text));
      return undefined;
    case 'quit':
      return 'quit';
    default:
      return assertNever(command);
  }
}
