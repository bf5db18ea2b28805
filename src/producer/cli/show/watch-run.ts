import { createProjector, readFrom, type DialectName } from '../../../shared/dialects/project.ts';
import { isTerminal, type RunEvent } from '../../../shared/contract/event.ts';
import type { RunStatus } from '../../../shared/contract/plain/ends.ts';
import { taskResult } from '../../../shared/contract/orchestration/task.ts';
import type { Millrace } from '../../client/millrace.ts';
import { exitCodes, type Cli, type ExitCode, shownJson } from '../cli.ts';
import { callOf } from './call-of.ts';
import { commandsFor } from './pending.ts';
import { RunPrinter } from './run-printer.ts';
import { yellow } from './paint.ts';

/** A run that no worker has started after this long may wait for a worker that does not exist. */
const adviseAfterMs = 3_000;

export interface WatchOptions {
  /** Begin after this event. */
  readonly after?: number | undefined;
  /** One event a line on stdout, nothing else there. */
  readonly json: boolean;
  /** As with `json`, in this dialect. */
  readonly dialect?: DialectName | undefined;
  /** Longest wait for the end; none when absent. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Prints a run until it ends. Answers `ok` or `failed` as the run ended; on Ctrl-C it stops following the run, which goes on,
 * prints how to come back, and answers `interrupted`. A task that did not pass has failed. A wait that took too long does the same and answers `failed`.
 */
export async function watchRun(cli: Cli, mill: Millrace, runId: string, options: WatchOptions): Promise<ExitCode> {
  const printer = new RunPrinter(cli);
  const timeout = options.timeoutMs === undefined ? undefined : AbortSignal.timeout(options.timeoutMs);
  const signal = timeout ? AbortSignal.any([cli.interrupted, timeout]) : cli.interrupted;
  const { after = 0, dialect } = options;
  const project = dialect && createProjector(dialect, await mill.whoami(), after);
  const print = (event: RunEvent) => {
    if (!project && !options.json) {
      printer.print(event);
      if (event.type === 'run.suspended')
        for (const line of commandsFor({ runId, pending: event.pending }, callOf(cli))) printer.note(line);
      return;
    }
    for (const shown of project ? project(event) : [event]) cli.stdout.write(shownJson(shown));
  };
  let last = after;
  using advice = adviseIfIdle(mill, (text) => cli.stderr.write(`${yellow(cli.stderr, text)}\n`));
  const from = dialect ? readFrom(dialect, after) : after;
  for await (const event of mill.events(runId, { after: from, signal })) {
    last = Math.max(last, event.sequenceNumber);
    advice.after(event);
    print(event);
    if (isTerminal(event)) return wentWell(event) ? exitCodes.ok : exitCodes.failed;
  }
  if (!signal.aborted) return await endedBefore(runId, { cli, mill, printer });
  const why = timeout?.aborted ? 'not waiting any longer' : 'stopped following';
  printer.note(
    `${why}; the run continues. Follow it: ${callOf(cli)} tail ${runId} --after ${last}   Stop it: ${callOf(cli)} cancel ${runId}`,
  );
  return cli.interrupted.aborted ? exitCodes.interrupted : exitCodes.failed;
}

/** Nothing comes after the event that was named: the run has ended. */
async function endedBefore(
  runId: string,
  { cli, mill, printer }: { readonly cli: Cli; readonly mill: Millrace; readonly printer: RunPrinter },
): Promise<ExitCode> {
  const { status, result } = await mill.get(runId);
  printer.note(`no event comes after that one: the run is ${status}. See it: ${callOf(cli)} get ${runId}`);
  return isGoodEnd(status, result?.output) ? exitCodes.ok : exitCodes.failed;
}

export function wentWell(event: RunEvent): boolean {
  return event.type === 'run.completed' && isGoodEnd(event.status, event.result.output);
}

/** A task has failed that did not pass. */
function isGoodEnd(status: RunStatus, output: unknown): boolean {
  if (status !== 'completed' && status !== 'degraded') return false;
  const task = taskResult.safeParse(output);
  return !task.success || task.data.pass;
}

/** The events of a run that no worker has taken. */
const accepted: ReadonlySet<string> = new Set(['run.queued', 'execution.started']);

interface Advice extends Disposable {
  /** The run has come so far. */
  after(event: RunEvent): void;
}

/**
 * Gives the advice to start a worker when no worker takes a run for a while, unless disposed before; only where none is running.
 * Whatever keeps it from being given does not matter to the run.
 */
export function adviseIfIdle(mill: Millrace, say: (advice: string) => void): Advice {
  const advise = async () => {
    const queues = Object.values(await mill.queueDepths());
    if (queues.every(({ workers }) => workers === 0))
      say('No worker is running: start one with `millrace worker`, or all with `millrace dev`.');
  };
  const timer = setTimeout(() => void advise().catch(() => {}), adviseAfterMs);
  const dispose = () => clearTimeout(timer);
  return { after: ({ type }) => void (accepted.has(type) || dispose()), [Symbol.dispose]: dispose };
}
