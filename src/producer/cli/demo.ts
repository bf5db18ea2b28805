import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { parseConfig } from '../../shared/contract/config.ts';
import { newNonce } from '../../shared/base/ids.ts';
import { Millrace } from '../client/millrace.ts';
import { examples, exitCodes, type Cli, type ExitCode } from './cli.ts';
import { command } from './options/command.ts';
import { callOf } from './show/call-of.ts';
import { watchRun } from './show/watch-run.ts';
import { bold, dim, green, red, table, yellow } from './show/paint.ts';
import { count, duration } from '../../shared/base/words.ts';
import { ensureRedis } from './stack/ensure-redis.ts';
import { startStack, type Stack } from './stack/stack.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import type { BatchView } from '../../shared/contract/batch.ts';
import type { RunView } from '../../shared/contract/run.ts';
import { connect, whenReady, mastersOf } from '../../shared/state/connect.ts';
import { beginBatch } from './batch/find-batch.ts';
import { followBatch } from './batch/follow-batch.ts';
import { checkFile } from './batch/own-file.ts';
import { batchLine } from './batch/show-batch.ts';
import { LiveLine } from './show/live-line.ts';

/**
 * Shorter than in production, so that the loss of a worker shows after seconds; and few slots, so that the batch is
 * still going when it happens.
 */
const demoSettings = {
  LOCK_DURATION_MS: '3000',
  STALLED_INTERVAL_MS: '1000',
  WORKER_CONCURRENCY: '6',
  SHUTDOWN_GRACE_MS: '2000',
} as const;

/** How long one may look at the runs of the demo. */
const lookMs = 600_000;

const graceMs = Number(demoSettings.SHUTDOWN_GRACE_MS);
/** Log lines that are shown when something fails. */
const keptLogLines = 60;

export const addDemo = command('demo', {
  description: 'Show everything once, in about half a minute: a streamed run, a batch, a killed worker, the cost.',
  help:
    examples('millrace demo') + '\n\nRuns beside a development stack without touching it, and needs no model provider.',
  work: demo,
});

async function demo(cli: Cli): Promise<ExitCode> {
  const sample = join(cli.root, 'examples/orders.jsonl');
  if (!cli.env['REDIS_URL']) await ensureRedis(cli);
  const say = (text: string) => void cli.stdout.write(`${text}\n`);
  const scratch = mkdtempSync(join(tmpdir(), 'millrace-demo-'));
  // Node takes no types off files below node_modules.
  const agents = join(scratch, 'agents');
  cpSync(join(cli.root, 'agents'), agents, { recursive: true });
  const logs: string[] = [];
  const code = await demonstrate(cli, { agents, sample, scratch, logs, say }).finally(() =>
    rmSync(scratch, { recursive: true, force: true }),
  );
  if (code === exitCodes.failed) cli.stderr.write(`\nThe last lines of the logs:\n${logs.join('\n')}\n`);
  return code;
}

interface Scene {
  readonly agents: string;
  readonly sample: string;
  /** A folder that is removed afterwards. */
  readonly scratch: string;
  readonly logs: string[];
  readonly say: (text: string) => void;
}

async function demonstrate(cli: Cli, scene: Scene): Promise<ExitCode> {
  const { say } = scene;
  const prefix = `demo-${newNonce().slice(0, 8)}`;
  say(bold(cli.stdout, 'Millrace demo: a Redis, a producer and two workers, with the built-in scripted model'));
  // Declared first and so disposed last: no process writes any more when the keys go.
  await using cleaning = new AsyncDisposableStack();
  cleaning.defer(() => cleanPrefix(cli.env['REDIS_URL'], prefix));
  await using stack = await startDemoStack(cli, scene, prefix);
  await using mill = new Millrace({ redis: stack.redisUrl, prefix });
  const pids = stack.workers.map(({ pid }) => pid).join(' and ');
  say(`${green(cli.stdout, '✓')} ${stack.url}, workers with the pids ${pids}`);
  say(`${dim(cli.stdout, `  watch it in a browser: ${stack.url}/runs`)}\n`);

  const streamed = await streamOne(cli, mill, stack.url, say);
  if (streamed !== exitCodes.ok) return streamed;

  say(`\n${bold(cli.stdout, 'A batch of 60 runs; half-way one worker is killed without warning')}`);
  const ran = await runSample(cli, mill, scene.sample, stack).catch((error: unknown) => {
    if (!cli.interrupted.aborted) throw error;
  });
  if (!ran) return exitCodes.interrupted;
  const { batch, runIds, elapsedMs } = ran;
  const result = await sumUp(mill, runIds, elapsedMs);
  say(result.text);
  const { total } = batch.request_counts;
  const allWell =
    batch.status === 'completed' && batch.request_counts.completed === total && result.completed === total;
  if (!allWell) {
    say(red(cli.stdout, 'Not every run completed.'));
    return exitCodes.failed;
  }
  const next = extname(import.meta.url) === '.ts' ? 'npm start' : `${callOf(cli)} init && ${callOf(cli)} dev`;
  say(
    `${green(cli.stdout, '✓')} Nothing was lost. Next: \`${next}\`, then \`${callOf(cli)} run support "Where is order 7?"\``,
  );
  await letLook(cli, stack.url, say);
  return exitCodes.ok;
}

/** At a terminal the runs stay until a key says that they were seen; a script wants the end at once. */
async function letLook({ stdin, stdout, interrupted }: Cli, url: string, say: (text: string) => void): Promise<void> {
  if (!stdin.isTTY || !stdout.isTTY) return;
  say(`\nIts runs are at ${bold(stdout, `${url}/runs`)} until Enter ends the demo.`);
  const signal = AbortSignal.any([interrupted, AbortSignal.timeout(lookMs)]);
  // The time, an interrupt and a terminal that goes away end the demo as Enter does.
  await once(stdin, 'data', { signal }).catch(() => {});
  stdin.pause();
}

async function startDemoStack(cli: Cli, { agents, scratch, logs, say }: Scene, prefix: string): Promise<Stack> {
  const { HOST } = parseConfig({ HOST: '127.0.0.1' });
  const keep = (line: string) => {
    logs.push(line);
    if (logs.length > keptLogLines) logs.shift();
  };
  return await startStack(cli, {
    env: {
      PATH: cli.env['PATH'],
      ...demoSettings,
      MILLRACE_PREFIX: prefix,
      MILLRACE_AGENTS: agents,
      MILLRACE_SCRIPT: join(agents, 'scripts/demo.yaml'),
    },
    redisUrl: cli.env['REDIS_URL'] || undefined,
    redisDir: join(scratch, 'redis'),
    host: HOST,
    port: { port: 0 },
    workerPort: { port: 0 },
    redisPort: 0,
    workers: 2,
    graceMs,
    onLine: (name, line) => keep(`${name}: ${line}`),
    onLoaded: () => {},
    say: (text) => say(dim(cli.stdout, `  ${text}`)),
  });
}

async function streamOne(cli: Cli, mill: Millrace, url: string, say: (text: string) => void): Promise<ExitCode> {
  say(bold(cli.stdout, 'One run, streamed: Where is order 1042?'));
  const run = await mill.enqueue({ agent: 'support', input: 'Where is order 1042?' }, { signal: cli.interrupted });
  say(dim(cli.stdout, `  ${url}/runs/${run.runId}`));
  // One stream for all of it: two would be shown in no particular order where they are files.
  return await watchRun({ ...cli, stderr: cli.stdout }, mill, run.runId, { json: false });
}

/** The totals of a set of runs, as text, and the number that decides the exit code. */
async function sumUp(
  mill: Pick<Millrace, 'get'>,
  runIds: readonly string[],
  elapsedMs: number,
): Promise<{ readonly text: string; readonly completed: number }> {
  const views = await Promise.all(runIds.map((runId) => mill.get(runId)));
  const completed = views.filter(({ status }) => status === 'completed').length;
  const recovered = views.filter(({ recoveries }) => recoveries > 0).length;
  const sum = (of: (view: RunView) => number) => views.reduce((total, view) => total + of(view), 0);
  const durations = views.flatMap(({ durationMs }) => durationMs ?? []).sort((a, b) => a - b);
  const rows: [string, string][] = [
    ['runs', count(views.length)],
    ['completed', count(completed)],
    ['recovered', `${count(recovered)} of them by another worker`],
    ['tokens', count(sum(({ usage }) => usage?.total ?? 0))],
    ['cost', `${formatUsd(sum(({ costMicrocents }) => costMicrocents))} (what the scripted models would have cost)`],
    ['run time', `p50 ${duration(percentile(durations, 0.5))}, p95 ${duration(percentile(durations, 0.95))}`],
    ['rate', `${((views.length * 1_000) / elapsedMs).toFixed(1)} runs/s in ${duration(elapsedMs)}`],
  ];
  return { text: `\n${table(rows)}`, completed };
}

/** The smallest value that at least this share of the sorted values does not exceed; 0 of none. */
function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}

const pageSize = 500;

/** Removes every key of a prefix from the user's own Redis; a private one vanishes anyway, so no URL means no work. */
async function cleanPrefix(url: string | undefined, prefix: string): Promise<void> {
  if (!url) return;
  const redis = connect(url, 'command', () => {});
  try {
    await whenReady(redis, 2_000);
    for (const node of mastersOf(redis)) {
      for (const pattern of [`${prefix}:*`, `{${prefix}}:*`]) {
        let cursor = '0';
        do {
          const [next, keys] = await node.scan(cursor, 'MATCH', pattern, 'COUNT', pageSize);
          // One by one: in a Cluster the keys of a page need not share a slot.
          await Promise.all(keys.map((key) => node.unlink(key)));
          cursor = next;
        } while (cursor !== '0');
      }
    }
  } finally {
    redis.disconnect();
  }
}

const batchName = 'orders';

/** Runs the sample batch, and half-way kills the last worker with SIGKILL while it has runs. */
async function runSample(cli: Cli, mill: Millrace, sample: string, stack: Stack) {
  const startedAt = performance.now();
  using live = new LiveLine(cli.stdout);
  let killed = false;
  const killHalfWay = ({ request_counts: { completed, total } }: BatchView) => {
    const victim = stack.workers.at(-1);
    if (killed || !victim || total === 0 || completed < total / 2) return;
    killed = true;
    process.kill(victim.pid, 'SIGKILL');
    const what = `kill -9 ${victim.pid} (${victim.name})`;
    live.note(yellow(cli.stdout, `  ${what}; the other worker takes its runs over when their leases end`));
  };
  const draft = {
    endpoint: '/v1/runs',
    filename: sample,
    defaults: {},
    inputTemplate: undefined,
    answerFields: [],
  } as const;
  const file = await checkFile(
    sample,
    draft,
    (_, message) => live.note(red(cli.stdout, `  ${message}`)),
    cli.interrupted,
  );
  const begun = await beginBatch(mill, { file, request: { name: batchName } }, () => {}, cli.interrupted);
  const watcher = {
    progress(batch: BatchView) {
      live.set(batchLine(batch));
      killHalfWay(batch);
    },
    waiting: (message: string) => live.note(yellow(cli.stdout, `  ${message}`)),
    outOfMoney: () => live.note(yellow(cli.stdout, '  what is left waits for money')),
  };
  const batch = await followBatch(mill.batches, begun, watcher, cli.interrupted);
  return { batch, runIds: await runIdsOf(mill), elapsedMs: performance.now() - startedAt };
}

async function runIdsOf(mill: Millrace): Promise<string[]> {
  const { runs } = await mill.list({ batch: batchName, limit: 100 });
  return runs.map(({ runId }) => runId);
}
