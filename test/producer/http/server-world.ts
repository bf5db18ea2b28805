import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { parseApiKeys } from '../../../src/shared/contract/config.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { createLog, silentLog } from '../../../src/shared/base/log.ts';
import { ConsoleSessions } from '../../../src/shared/state/console-sessions.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { ProducerMetrics } from '../../../src/producer/http/metrics.ts';
import { createServer, type ProducerServer } from '../../../src/producer/http/server.ts';
import type { MillraceOptions } from '../../../src/producer/client/options.ts';
import { call, type Answer } from '../../support/http.ts';
import { clientWorld, request, type ClientWorld } from '../cli/options/client.ts';
import { RunWriter } from '../support/run-writer.ts';

export interface ServerWorldOptions {
  /** As `MILLRACE_API_KEYS`. */
  readonly apiKeys?: string;
  readonly keepAliveMs?: number;
  readonly answerWaitMs?: number;
  readonly durability?: 'process' | 'replica';
  readonly client?: Partial<MillraceOptions>;
  /** Receives every log line. Default: nothing is logged. */
  readonly lines?: string[];
  readonly secrets?: readonly string[];
  /** Folder of a built console. */
  readonly console?: string;
}

export interface ServerWorld extends ClientWorld {
  readonly url: string;
  readonly server: ProducerServer;
  readonly metrics: ProducerMetrics;
  readonly send: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  /** A run that a worker could take now. */
  readonly start: (body?: object) => Promise<RunWriter>;
}

/** A listening server on the real client and the test Redis. */
export async function serverWorld(options: ServerWorldOptions = {}): Promise<ServerWorld> {
  const { apiKeys, keepAliveMs, answerWaitMs, durability = 'any', client, lines, secrets = [], console } = options;
  const world = await clientWorld(client);
  const metrics = new ProducerMetrics(() => world.mill.queueDepths());
  const redactor = new Redactor(secrets);
  const log = lines ? createLog('test', 'trace', redactor, { write: (line: string) => lines.push(line) }) : silentLog;
  const server = await createServer({
    mill: world.mill,
    config: { MILLRACE_DURABILITY: durability },
    log,
    redactor,
    apiKeys: apiKeys ? parseApiKeys(apiKeys).keys : [],
    metrics,
    sessions: new ConsoleSessions({ keys: world.keys, clock: systemClock, reach: (work) => work(world.redis) }),
    ...(console && { consoleFolder: console }),
    ...(keepAliveMs && { keepAliveMs }),
    ...(answerWaitMs && { answerWaitMs }),
  });
  await server.app.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.close());
  const url = `http://127.0.0.1:${(server.app.server.address() as AddressInfo).port}`;
  const send: ServerWorld['send'] = (method, path, body, headers) => call(method, url + path, body, headers);
  const start = async (body: object = request) =>
    new RunWriter(world.redis, world.keys, (await send('POST', '/v1/runs', body)).body.runId);
  return { ...world, url, server, metrics, send, start };
}

/** Ends a run: the event first, so that no reader finds a record that is ahead of its log. */
export async function endRun(run: RunWriter): Promise<void> {
  const usage = { input: 3, output: 2, cached: 0, cacheWrite: 0, total: 5, byModel: {} };
  const result = { text: 'It is on its way.' };
  const body = { status: 'completed', result, usage, costMicrocents: 700, durationMs: 5, steps: 1 } as const;
  await run.emit([{ type: 'run.completed', ...body }]);
  await run.set({ status: 'completed', lastSequence: String(run.sequence), result: JSON.stringify(result) });
}
