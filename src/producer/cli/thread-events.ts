import { setTimeout as delay } from 'node:timers/promises';
import { RunError, assertNever } from '../../shared/base/errors.ts';
import { maxThreadEvents, type ThreadEvent } from '../../shared/contract/thread/thread-event.ts';
import { openClient } from './options/open-client.ts';
import { exitCodes, type Cli, type ExitCode } from './cli.ts';
import { dim, oneLine, red } from './show/paint.ts';
import type { WriteStream } from 'node:tty';

/** Between two reads: Redis does not notify of new events. */
const lookMs = 1_000;
const maxTextChars = 200;

export interface ThreadEventsOptions {
  readonly after?: number;
  readonly follow?: true;
  readonly json?: true;
}

/** Prints what followed the runs of a thread; with `follow` also what comes, until an interrupt. */
export async function threadEvents(cli: Cli, threadId: string, options: ThreadEventsOptions): Promise<ExitCode> {
  const { after = 0, follow, json } = options;
  await using mill = openClient(cli);
  let last = after;
  const showNew = async () => {
    for (let more = true; more;) {
      const page = await mill.threads.events(threadId, { after: last, limit: maxThreadEvents });
      for (const event of page.events) {
        cli.stdout.write(json ? `${JSON.stringify(event)}\n` : threadEventLine(cli.stdout, event));
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
  cli.stderr.write(`${dim(cli.stderr, 'Following what comes after the runs of this thread; Ctrl-C ends it.')}\n`);
  for (;;) {
    // Nothing but the interrupt ends it early.
    await delay(lookMs, undefined, { signal: cli.interrupted }).catch(() => {});
    if (cli.interrupted.aborted) return exitCodes.interrupted;
    await showNew().catch(unlessAway);
  }
}

/** A Redis that is away comes back; what there is then is shown. */
function unlessAway(error: unknown): void {
  if (!(error instanceof RunError && error.code === 'queue_unavailable')) throw error;
}

/** What followed a run of a thread, for a person: one line. */
export function threadEventLine(stream: WriteStream, event: ThreadEvent): string {
  const when = event.timestamp.slice(0, 19).replace('T', ' ');
  return `${dim(stream, `${event.sequenceNumber}  ${when}  ${event.runId}`)}  ${saidOf(stream, event)}\n`;
}

function saidOf(stream: WriteStream, event: ThreadEvent): string {
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
