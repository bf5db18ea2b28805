import { jsonOr } from '../../shared/base/json.ts';
import type { AddressInfo } from 'node:net';
import { parseApiKeys, type ApiKey, type Config } from '../../shared/contract/config.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import type { Log } from '../../shared/base/log.ts';
import { Redactor, cutText } from '../../shared/base/redact.ts';
import { auditApiKeys } from '../../shared/state/audit/api-keys.ts';
import { ConsoleSessions } from '../../shared/state/console-sessions.ts';
import { redisSecrets } from '../../shared/state/connect.ts';
import { clientOptions, type RunFact } from '../client/options.ts';
import { ClientCore } from '../client/client-core.ts';
import { MillraceClient } from '../client/facade.ts';
import { operationsOver } from '../client/redis-operations.ts';
import type { Advancing, BatchNews } from '../client/batches/batches.ts';
import { isEndedBatch } from '../../shared/contract/plain/batch-ends.ts';
import { keepSeries } from '../client/series/counting.ts';
import type { App } from './app.ts';
import { isLoopback } from './auth.ts';
import { ProducerMetrics } from './metrics.ts';
import { missingDurability } from './readiness.ts';
import { createServer } from './server.ts';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { agentView } from '../../shared/contract/agent/agent.ts';

export interface RunningProducer {
  readonly url: string;
  readonly port: number;
  /** Turns away new work, ends event streams so that they can be resumed, and is done within 5 seconds. */
  close(): Promise<void>;
}

/**
 * Starts the producer and resolves when it listens; it does so also while Redis is away, and is then not ready. Throws
 * `invalid_config` when it would be open to every client, when its port is taken, when the store of `ARTIFACT_STORE` cannot be
 * written to, and when Redis keeps less than
 * `MILLRACE_DURABILITY` asks for; `queue_unavailable` when that cannot be found out.
 */
export async function startProducer(config: Config, log: Log): Promise<RunningProducer> {
  const apiKeys = readApiKeys(config);
  let advancing: Advancing | undefined;
  let series: AsyncDisposable | undefined;
  const metrics: ProducerMetrics = new ProducerMetrics(
    () => mill.queueDepths(),
    async () => await advancing?.countOpen(),
  );
  const report = reportRun(log);
  const onRun = (fact: RunFact) => {
    report(fact);
    if (fact.kind === 'ended') metrics.runEnded({ ...fact, kind: fact.jobKind });
  };
  const core = new ClientCore({ ...clientOptions(config), namesAddress: false, onError: reportOnce(log), onRun });
  const mill = new MillraceClient(operationsOver(core, { tenant: 'default', requestId: undefined }));
  try {
    await core.files.open(log);
    await checkDurability(mill, config, log);
    const sessions = new ConsoleSessions({ keys: core.keys, clock: systemClock, reach: (work) => core.reach(work) });
    const redactor = producerRedactor(config);
    const server = await createServer({ mill, config, log, redactor, apiKeys, metrics, sessions });
    await listen(server.app, config);
    const closing = new AbortController();
    void noteApiKeys(core, apiKeys, log);
    void registerAgentsOf(config.MILLRACE_AGENTS, mill, log, closing.signal);
    const { port } = server.app.server.address() as AddressInfo;
    advancing = await mill.batches.advance({
      atOnce: config.BATCHES_AT_ONCE,
      lockDurationMs: config.LOCK_DURATION_MS,
      stalledIntervalMs: config.STALLED_INTERVAL_MS,
      onNews: reportBatch(log, metrics),
    });
    series = keepSeries(core);
    return {
      url: `http://${hostForUrl(config.HOST)}:${port}`,
      port,
      async close() {
        closing.abort();
        await Promise.all([server.close(), advancing?.[Symbol.asyncDispose](), series?.[Symbol.asyncDispose]()]);
        await mill.close();
      },
    };
  } catch (error) {
    await mill.close();
    throw error;
  }
}

/** While Redis is away for long nothing is noted: the next start compares with what is known. */
async function noteApiKeys(core: ClientCore, apiKeys: readonly ApiKey[], log: Log): Promise<void> {
  const note = () => core.reach((redis) => auditApiKeys({ redis, keys: core.keys }, apiKeys));
  try {
    await core.patiently(note, core.closing);
  } catch (error) {
    if (!core.closing.aborted) log.warn({ err: error }, 'changes of API keys are not in the audit log');
  }
}

/** Knows the credentials of this process, so that none gets into an answer or a log line. */
export function producerRedactor(config: Config): Redactor {
  return new Redactor([config.OPENAI_API_KEY, ...redisSecrets(config.REDIS_URL)]);
}

function readApiKeys({ MILLRACE_API_KEYS: source, HOST }: Config): readonly ApiKey[] {
  if (source === undefined) {
    if (isLoopback(HOST)) return [];
    throw new RunError('invalid_config', `HOST: ${HOST} is reachable from elsewhere, so MILLRACE_API_KEYS must be set`);
  }
  const { keys, problems } = parseApiKeys(source);
  if (problems.length > 0) throw new RunError('invalid_config', problems.join('\n'), { details: problems });
  return keys;
}

/** With a level to keep, refuses to start below it. Otherwise only logs what is not kept, once it is known. */
async function checkDurability(
  mill: MillraceClient,
  { MILLRACE_DURABILITY: required }: Config,
  log: Log,
): Promise<void> {
  if (required === 'any') {
    void mill.diagnose().then(
      ({ durability }) => {
        const remedy = missingDurability(durability, 'process');
        if (durability === 'none') log.warn({ remedy }, 'accepted runs do not survive a restart of Redis');
      },
      (error: unknown) => log.warn({ err: error }, 'Redis cannot be asked what it keeps'),
    );
    return;
  }
  const { durability } = await mill.diagnose();
  const missing = missingDurability(durability, required);
  if (missing) throw new RunError('invalid_config', missing);
}

async function listen(app: App, { HOST: host, PORT: port }: Config): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    await app.close();
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
    throw new RunError('invalid_config', `HOST, PORT: cannot listen on ${host} port ${port} (${code})`, { cause });
  }
}

function hostForUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}

/** A Redis that is away fails every reconnect, many times a second; the first of a series is logged. */
function reportOnce(log: Log): (error: Error) => void {
  let lastMessage = '';
  let lastAt = Number.NEGATIVE_INFINITY;
  return (error) => {
    const now = performance.now();
    if (error.message === lastMessage && now - lastAt < 10_000) return;
    lastMessage = error.message;
    lastAt = now;
    log.warn({ err: error }, 'Redis connection failed');
  };
}

/** One line for every run that is accepted, or ends here. */
function reportRun(log: Log): (fact: RunFact) => void {
  return ({ kind, ...facts }) => log.info(facts, kind === 'accepted' ? 'run accepted' : 'run ended');
}

/** One line when a batch begins, rests, goes on or ends here; and when it could not go on for now. */
function reportBatch(log: Log, metrics: ProducerMetrics): (news: BatchNews) => void {
  return (news) => {
    switch (news.kind) {
      case 'line':
        metrics.batchLine(news.end);
        break;
      case 'failed':
        log.warn({ batchId: news.batchId, err: news.error }, 'batch interrupted');
        break;
      case 'status': {
        const {
          id: batchId,
          tenant,
          status,
          reason,
          total,
          completed,
          failed,
          costMicrocents,
          requestId,
        } = news.record;
        const facts = {
          batchId,
          tenant,
          status,
          before: news.before,
          total,
          completed,
          failed,
          costMicrocents,
          requestId,
        };
        if (isEndedBatch(status)) log.info(facts, 'batch ended');
        else log.info(reason === '' ? facts : { ...facts, reason }, 'batch moved on');
        break;
      }
      default:
        assertNever(news);
    }
  };
}

const listTimeoutMs = 20_000;
const maxListBytes = 4 * 1024 * 1024;

/**
 * Announces the agents of a folder, so that runs for them are accepted before the first worker is up. Agent modules are
 * code, so a worker process reads them, not this one. Never rejects: workers announce their agents themselves, and
 * without any everything still works.
 */
export async function registerAgentsOf(
  folder: string,
  mill: MillraceClient,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  if (!existsSync(folder)) return;
  try {
    const { agents, problems } = await listAgents(folder, signal);
    await mill.registerAgents(agents);
    if (problems) log.warn({ problems }, 'some agents cannot be loaded');
  } catch (error) {
    if (!signal.aborted) log.warn({ err: error }, 'the agents of this producer are not announced');
  }
}

const workerEntry = fileURLToPath(new URL(`../../worker/main${extname(import.meta.url)}`, import.meta.url));

/** The lister prints the agents that it could load also when there are problems with others, which it then exits with. */
async function listAgents(folder: string, signal: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<{ error: Error | null; stdout: string; stderr: string }>();
  const options = { signal, timeout: listTimeoutMs, maxBuffer: maxListBytes, killSignal: 'SIGKILL' } as const;
  execFile(process.execPath, [workerEntry, 'agents', folder, '--json'], options, (error, stdout, stderr) => {
    resolve({ error, stdout, stderr });
  });
  const { error, stdout, stderr } = await promise;
  // Whatever an agent module prints while it is loaded comes first.
  const line = stdout.trimEnd().split('\n').at(-1) ?? '';
  const listed = z.array(agentView).safeParse(jsonOr(line));
  if (!listed.success)
    throw new RunError('agent_manifest_invalid', cutText(stderr || 'the lister printed no agents', 2_048), {
      cause: error,
    });
  return { agents: listed.data, problems: error ? cutText(stderr, 2_048) : '' };
}
