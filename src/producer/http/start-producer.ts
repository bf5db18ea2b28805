import type { AddressInfo } from 'node:net';
import { parseApiKeys, type ApiKey, type Config } from '../../shared/contract/config.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Log } from '../../shared/base/log.ts';
import { Redactor } from '../../shared/base/redact.ts';
import { redisSecrets } from '../../shared/state/connect.ts';
import { clientOptions, type RunFact } from '../client/options.ts';
import { Millrace } from '../client/millrace.ts';
import { isLoopback } from './auth.ts';
import { ProducerMetrics } from './metrics.ts';
import { missingDurability } from './readiness.ts';
import { registerAgentsOf } from './register-agents.ts';
import { createServer } from './server.ts';

export interface RunningProducer {
  readonly url: string;
  readonly port: number;
  /** Turns away new work, ends event streams so that they can be resumed, and is done within 5 seconds. */
  close(): Promise<void>;
}

/**
 * Starts the producer and resolves when it listens; it does so also while Redis is away, and is then not ready. Throws
 * `invalid_config` when it would be open to every client, when its port is taken, and when Redis keeps less than
 * `MILLRACE_DURABILITY` asks for; `queue_unavailable` when that cannot be found out.
 */
export async function startProducer(config: Config, log: Log): Promise<RunningProducer> {
  const apiKeys = readApiKeys(config);
  const metrics: ProducerMetrics = new ProducerMetrics(() => mill.queueDepths());
  const report = reportRun(log);
  const onRun = (fact: RunFact) => {
    report(fact);
    if (fact.kind === 'ended') metrics.runEnded({ ...fact, kind: fact.jobKind });
  };
  const mill = new Millrace({ ...clientOptions(config), onError: reportOnce(log), onRun });
  try {
    await checkDurability(mill, config, log);
    const server = await createServer({ mill, config, log, redactor: producerRedactor(config), apiKeys, metrics });
    await listen(server.app, config);
    const closing = new AbortController();
    void registerAgentsOf(config.MILLRACE_AGENTS, mill, log, closing.signal);
    const { port } = server.app.server.address() as AddressInfo;
    return {
      url: `http://${hostForUrl(config.HOST)}:${port}`,
      port,
      async close() {
        closing.abort();
        await server.close();
        await mill.close();
      },
    };
  } catch (error) {
    await mill.close();
    throw error;
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
async function checkDurability(mill: Millrace, { MILLRACE_DURABILITY: required }: Config, log: Log): Promise<void> {
  if (required === 'any') {
    void mill.diagnose().then(
      ({ durability }) => {
        if (durability === 'none')
          log.warn(
            { remedy: missingDurability(durability, 'process') },
            'accepted runs do not survive a restart of Redis',
          );
      },
      (error: unknown) => log.warn({ err: error }, 'Redis cannot be asked what it keeps'),
    );
    return;
  }
  const { durability } = await mill.diagnose();
  const missing = missingDurability(durability, required);
  if (missing) throw new RunError('invalid_config', missing);
}

async function listen(
  app: Awaited<ReturnType<typeof createServer>>['app'],
  { HOST: host, PORT: port }: Config,
): Promise<void> {
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
