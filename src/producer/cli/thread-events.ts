import { setTimeout as delay } from 'node:timers/promises';
import { RunError } from '../../shared/base/errors.ts';
import { maxThreadEvents } from '../../shared/contract/thread/thread-event.ts';
import { openClient } from './options/open-client.ts';
import { exitCodes, type Cli, type ExitCode } from './cli.ts';
import { dim } from './show/paint.ts';
import { threadEventLine } from './show/thread-event.ts';

export interface ThreadEventsOptions {
  readonly after?: number;
  readonly follow?: true;
  readonly json?: true;
}

/** Between two looks: nobody tells when there is more. */
const lookMs = 1_000;

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
