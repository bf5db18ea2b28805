import { known, type Fact, dateTime, dim, table, red } from './show/paint.ts';
import { oneLine } from '../../shared/base/words.ts';
import {
  collect,
  printJson,
  examples,
  exitCodes,
  pause,
  unlessAway,
  type AddCommand,
  type Cli,
  type ExitCode,
  shownJson,
} from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { RunError, assertNever } from '../../shared/base/errors.ts';
import type { ThreadView } from '../../shared/contract/thread/thread-items.ts';
import { maxMessages } from '../client/threads.ts';
import { asJson, command, flag, text, value, valueOr } from './options/command.ts';
import { listTable, nameColumn, numberColumn, textColumn } from './show/list-table.ts';
import { openClient } from './options/open-client.ts';
import { wholeNumber } from './options/arguments.ts';
import { itemText } from './show/thread-item.ts';
import { maxThreadEvents, type ThreadEvent } from '../../shared/contract/thread/thread.ts';
import type { WriteStream } from 'node:tty';

const number = wholeNumber(0);

export const addThreads: AddCommand = (program, act) => {
  const threads = program
    .command('threads')
    .description('List, read, name, export and delete conversations.')
    .addHelpText(
      'after',
      examples(
        'millrace threads --agent support',
        'millrace threads messages customer-42 --newest --limit 10',
        'millrace threads events customer-42 --follow',
        'millrace threads export customer-42 > customer-42.jsonl',
      ),
    );
  for (const add of [list, show, messages, threadEvents]) add(threads, act);
  threads
    .command('title <thread>')
    .description('Give a thread a title, or take it away with an empty one.')
    .addOption(asJson)
    .argument('<text>', 'the title')
    .addHelpText('after', examples('millrace threads title customer-42 "Order 7"'))
    .action(act(title));
  for (const add of [remove, exported, purge]) add(threads, act);
};

const list = command('list', {
  description: 'List threads, last changed first.',
  options: [
    text('--agent <id>', 'only threads of this agent'),
    valueOr('--limit <n>', 'at most so many', wholeNumber(1, 100_000), 20),
    asJson,
  ],
  isDefault: true,
  help: examples('millrace threads list --agent support', 'millrace threads --limit 50 --json'),
  work: async (cli, { agent, limit, json }) => {
    await using mill = openClient(cli);
    const { found, cursor: next } = await collect(cli, limit, async (range) => {
      const { threads: items, cursor } = await mill.threads.list(defined({ ...range, agent }));
      return { items, cursor };
    });
    if (json) return printJson(cli, found);
    cli.stdout.write(found.length === 0 ? '' : listTable(columns, found.map(rowOf), cli.stdout));
    if (found.length === 0) cli.stderr.write('There are no such threads.\n');
    else if (next !== undefined) cli.stderr.write(`${dim(cli.stderr, `There may be more: --limit ${limit * 2}`)}\n`);
    return exitCodes.ok;
  },
});

const columns = [
  nameColumn('THREAD'),
  nameColumn('AGENT'),
  nameColumn('CHANGED (UTC)'),
  nameColumn('LOCKED BY'),
  numberColumn('WAITING'),
  textColumn('TITLE'),
];

function rowOf({ threadId, agentId, updatedAt, lockOwner, waiting, suspendedBy, title }: ThreadView): string[] {
  const lockedBy = lockOwner === undefined ? '' : `${lockOwner}${suspendedBy === undefined ? '' : ' (suspended)'}`;
  const changed = dateTime(updatedAt);
  return [threadId, agentId, changed, lockedBy, waiting === 0 ? '' : String(waiting), oneLine(title ?? '', 80)];
}

const show = command('show <thread>', {
  description: 'Show the state of a thread: which run owns its lock, and how many runs wait.',
  options: [asJson],
  help: examples('millrace threads show customer-42'),
  work: async (cli, threadId, { json }) => {
    await using mill = openClient(cli);
    return showView(cli, await mill.threads.get(threadId), json);
  },
});

async function title(cli: Cli, threadId: string, given: string, { json }: { readonly json?: true }): Promise<ExitCode> {
  await using mill = openClient(cli);
  return showView(cli, await mill.threads.update(threadId, { title: given === '' ? null : given }), json);
}

function showView(cli: Cli, view: ThreadView, json: true | undefined): ExitCode {
  if (json) return printJson(cli, view);
  const rows: Fact[] = [
    ['thread', view.threadId],
    ['agent', view.agentId],
    ['title', view.title && oneLine(view.title, 200)],
    ['task', view.taskId && oneLine(view.taskId, 200)],
    ['session', view.session && `${view.session.provider}/${view.session.model}`],
    ['created', view.createdAt],
    ['changed', view.updatedAt],
    ['locked by', view.lockOwner],
    ['suspended', view.suspendedBy === undefined ? undefined : 'it waits for something outside'],
    ['waiting', view.waiting === 0 ? undefined : String(view.waiting)],
    ['entries', `up to number ${view.lastSeq}`],
  ];
  cli.stdout.write(table(known(rows)));
  return exitCodes.ok;
}

const messages = command('messages <thread>', {
  description: 'Show the messages and tool calls, also of the running run.',
  options: [
    asJson,
    value('--after <n>', 'only messages with a higher number', number),
    value('--before <n>', 'only messages with a lower number', number),
    valueOr('--limit <n>', 'at most so many messages', wholeNumber(1, maxMessages), 100),
    flag('--newest', 'the newest ones instead of the oldest'),
  ],
  help: examples('millrace threads messages customer-42 --newest --limit 10'),
  work: async (cli, threadId, { after, before, limit, newest, json }) => {
    await using mill = openClient(cli);
    const range = defined({ limit, after, before, order: newest ? ('desc' as const) : undefined });
    const page = await mill.threads.messages(threadId, range);
    const items = newest ? page.messages.toReversed() : page.messages;
    if (json) return printJson(cli, items);
    for (const item of items) cli.stdout.write(itemText(cli.stdout, item));
    if (items.length === 0) cli.stderr.write('There is nothing.\n');
    const way = newest ? '--before' : '--after';
    if (page.next !== undefined) cli.stderr.write(`${dim(cli.stderr, `There is more: ${way} ${page.next}`)}\n`);
    return exitCodes.ok;
  },
});

const remove = command('delete <thread>', {
  description: 'Delete a thread with its whole log.',
  options: [asJson],
  help: examples('millrace threads delete customer-42'),
  work: async (cli, threadId, { json }) => {
    await using mill = openClient(cli);
    await mill.threads.delete(threadId);
    if (json) return printJson(cli, { threadId, deleted: true });
    cli.stdout.write(`deleted ${threadId}\n`);
    return exitCodes.ok;
  },
});

const exported = command('export <thread>', {
  description: 'Print a thread and its whole log, one JSON document a line.',
  help: examples('millrace threads export customer-42 > customer-42.jsonl'),
  work: async (cli, threadId) => {
    await using mill = openClient(cli);
    for await (const line of mill.threads.export(threadId)) {
      cli.interrupted.throwIfAborted();
      cli.stdout.write(shownJson(line));
    }
    return exitCodes.ok;
  },
});

const purge = command('purge', {
  description: 'Delete all threads of the tenant that no run uses.',
  options: [flag('--yes', 'this is meant'), asJson],
  help: examples('millrace threads purge --yes'),
  work: async (cli, { yes, json }) => {
    if (!yes) throw new RunError('validation', 'this deletes all threads of the tenant; confirm with --yes');
    await using mill = openClient(cli);
    const kept: string[] = [];
    let removed = 0;
    let cursor: string | undefined;
    do {
      cli.interrupted.throwIfAborted();
      const step = await mill.threads.purge(cursor === undefined ? {} : { cursor });
      removed += step.removed;
      kept.push(...step.kept);
      cursor = step.cursor;
      if (cursor !== undefined) cli.stderr.write(`${dim(cli.stderr, `deleted ${removed} so far`)}\n`);
    } while (cursor !== undefined);
    if (json) return printJson(cli, { removed, kept });
    cli.stdout.write(`deleted ${removed} thread${removed === 1 ? '' : 's'}\n`);
    for (const threadId of kept) cli.stderr.write(`kept ${threadId}: runs use it\n`);
    return exitCodes.ok;
  },
});

/** Between two reads: Redis does not notify of new events. */
const lookMs = 1_000;
const maxTextChars = 200;

/** Prints the events of post-run jobs of a thread; with `follow` also new ones, until an interrupt. */
const threadEvents = command('events <thread>', {
  description: 'Show its events of post-run jobs: titles, embeddings, and what of them failed.',
  options: [
    value('--after <n>', 'only events with a higher number', number),
    flag('--follow', 'go on, and print what comes'),
    flag('--json', 'print one event a line'),
  ],
  help: examples('millrace threads events customer-42 --follow'),
  work: async (cli, threadId, { after = 0, follow, json }) => {
    await using mill = openClient(cli);
    let last = after;
    const showNew = async () => {
      for (let more = true; more;) {
        const page = await mill.threads.events(threadId, { after: last, limit: maxThreadEvents });
        for (const event of page.events) {
          cli.stdout.write(json ? shownJson(event) : threadEventLine(cli.stdout, event));
          last = event.sequenceNumber;
        }
        more = page.more;
      }
    };
    await showNew();
    if (!follow) {
      if (last === after) cli.stderr.write('There is nothing.\n');
      return exitCodes.ok;
    }
    cli.stderr.write(`${dim(cli.stderr, 'Following the events of this thread; Ctrl-C ends it.')}\n`);
    for (;;) {
      await pause(lookMs, cli.interrupted);
      if (cli.interrupted.aborted) return exitCodes.interrupted;
      await showNew().catch(unlessAway);
    }
  },
});

/** An event of a thread, for a person: one line. */
function threadEventLine(stream: WriteStream, event: ThreadEvent): string {
  const when = dateTime(event.timestamp);
  return `${dim(stream, `${event.sequenceNumber}  ${when}  ${event.runId}`)}  ${textOf(stream, event)}\n`;
}

function textOf(stream: WriteStream, event: ThreadEvent): string {
  switch (event.type) {
    case 'thread.title_generated':
      return `title: ${oneLine(event.title, maxTextChars)}`;
    case 'thread.embedding_done':
      return `embeddings of ${event.messages} message${event.messages === 1 ? '' : 's'} by ${oneLine(event.model, maxTextChars)}`;
    case 'postrun.failed':
      return red(stream, oneLine(`${event.effect} failed: ${event.error.code}: ${event.error.message}`, maxTextChars));
    default:
      return assertNever(event);
  }
}
