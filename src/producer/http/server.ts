import { parse as parseQuery } from 'node:querystring';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { fastify, LogController, type FastifyPluginAsync, type RawServerDefault } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { z } from 'zod';
import type { ApiKey, Config } from '../../shared/contract/config.ts';
import { RunError } from '../../shared/base/errors.ts';
import { withoutWords } from '../../shared/contract/provider-report.ts';
import { runQueue } from '../../shared/contract/queues.ts';
import { newNonce, publicId } from '../../shared/base/ids.ts';
import { invalid } from '../../shared/base/problems.ts';
import { wireJson } from './wire-json.ts';
import type { ConsoleSessions } from '../../shared/state/console-sessions.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { Millrace } from '../client/millrace.ts';
import { answerClientError, answerErrors, sendError } from './error-answer.ts';
import { OpenAnswers, type App, type Services } from './app.ts';
import { guardRoutes } from './auth.ts';
import { BodyRoom } from './body-room.ts';
import { readJsonBodies } from './read-body.ts';
import type { ProducerMetrics } from './metrics.ts';
import { consoleFolder } from './console-files.ts';
import { describeRoutes } from './openapi.ts';
import { ProducerReadiness, type ReadinessProbes } from './readiness.ts';
import { auditRoutes } from './routes/audit.ts';
import { batchRoutes } from './routes/batches.ts';
import { consoleRoutes } from './routes/console.ts';
import { decisionRoutes } from './routes/decisions.ts';
import { erasureRoutes } from './routes/erasures.ts';
import { fileRoutes } from './routes/openai/files.ts';
import { fleetRoutes } from './routes/fleet.ts';
import { flowRoutes } from './routes/flows.ts';
import { manyRunRoutes } from './routes/many-runs.ts';
import { chatRoutes } from './routes/openai/chat.ts';
import { conversationRoutes } from './routes/openai/conversations.ts';
import { modelRoutes } from './routes/openai/models.ts';
import { responseRoutes } from './routes/openai/responses.ts';
import { mcpPinRoutes } from './routes/mcp-pins.ts';
import { moneyRoutes } from './routes/money.ts';
import { seriesRoutes } from './routes/series.ts';
import { metadataName, readRunRoutes } from './routes/read-runs.ts';
import { serviceRoutes } from './routes/service.ts';
import { sessionRoutes } from './routes/session.ts';
import { startManyRoute, startRunRoute } from './routes/start-runs.ts';
import { streamRoutes } from './routes/streams.ts';
import { threadRoutes } from './routes/threads.ts';

const settings = {
  bodyLimit: 1024 * 1024,
  /** A request must have arrived within this, a file of 200 MB over a slow line included. JSON has two minutes (`read-body.ts`). */
  requestTimeout: 3_600_000,
  /** Silence after which a connection is cut. Longer than the longest wait for a result, which is silent throughout. */
  connectionTimeout: 90_000,
  /** Longer than the usual minute of load balancers, which would otherwise use a connection that we just closed. */
  keepAliveTimeout: 72_000,
  forceCloseConnections: 'idle' as const,
  /** While the producer drains, requests on open connections get our own answer instead. */
  return503OnClosing: false,
  /** A HEAD for an event stream would never end. */
  exposeHeadRoutes: false,
};
const defaultKeepAliveMs = 15_000;
/** Below the ten minutes after which clients of OpenAI give up. */
const defaultAnswerWaitMs = 300_000;
/** From the start of draining until all connections are cut. */
const drainMs = 4_000;

export interface ServerOptions {
  readonly mill: Millrace;
  readonly config: Pick<Config, 'MILLRACE_DURABILITY'>;
  readonly log: Log;
  readonly redactor: Redactor;
  /** None: every client is the tenant `default`, so listen on loopback only. */
  readonly apiKeys: readonly ApiKey[];
  readonly metrics: ProducerMetrics;
  readonly sessions: ConsoleSessions;
  /** Where the built console is; default: where this installation has it. */
  readonly consoleFolder?: string;
  /** Milliseconds between signs of life on an event stream, default 15,000. */
  readonly keepAliveMs?: number;
  /** How long an answer of OpenAI's API waits for its run, in milliseconds, default 300,000. */
  readonly answerWaitMs?: number;
}

export interface ProducerServer {
  readonly app: App;
  /** Turns away new work, ends event streams so that they can be resumed, and is done within 5 seconds. */
  close(): Promise<void>;
}

/** Builds the producer's HTTP server; call `app.listen`. Does not own `mill`. */
export async function createServer(options: ServerOptions): Promise<ProducerServer> {
  const { mill, config, log, redactor, apiKeys, metrics, sessions } = options;
  const { keepAliveMs = defaultKeepAliveMs, answerWaitMs = defaultAnswerWaitMs } = options;
  const app = bareApp(options);
  const services: Services = {
    metrics,
    redactor,
    log,
    openAnswers: new OpenAnswers(),
    bodyRoom: new BodyRoom(),
    readiness: new ProducerReadiness(readinessProbes(mill), config.MILLRACE_DURABILITY),
    keepAliveMs,
    answerWaitMs,
    apiKeys,
    sessions,
    consoleFolder: options.consoleFolder ?? consoleFolder,
  };
  // Bodies are checked by the client, which every way in passes; here their schemas are documentation.
  app.setValidatorCompiler<z.ZodType>(({ httpPart, schema }) => {
    if (httpPart === 'body') return (value) => ({ value });
    return (value) => {
      const { success, data, error } = schema.safeParse(value);
      return success ? { value: data } : { error: invalid('validation', 'the request is not valid', error, schema) };
    };
  });
  app.setSerializerCompiler(() => (answer) => wireJson(answer));
  readJsonBodies(app, services.bodyRoom);
  answerErrors(app, options);
  setHeaders(app);
  countRequests(app, metrics);
  watchAnswers(app, services.openAnswers);
  guardRoutes(app, mill, apiKeys, sessions);
  await describeRoutes(app);
  for (const route of routes) {
    const plugin: FastifyPluginAsync<object, RawServerDefault, ZodTypeProvider, Log> = async (scope) =>
      route(scope, services);
    await app.register(plugin);
  }
  return { app, close: () => drain(app, services.openAnswers) };
}

/** Each has a scope of its own in Fastify's sense. */
const routes: readonly ((app: App, services: Services) => void)[] = [
  startRunRoute,
  startManyRoute,
  readRunRoutes,
  manyRunRoutes,
  streamRoutes,
  decisionRoutes,
  moneyRoutes,
  seriesRoutes,
  flowRoutes,
  auditRoutes,
  erasureRoutes,
  fleetRoutes,
  mcpPinRoutes,
  threadRoutes,
  fileRoutes,
  modelRoutes,
  chatRoutes,
  responseRoutes,
  conversationRoutes,
  batchRoutes,
  serviceRoutes,
  sessionRoutes,
  consoleRoutes,
];

function bareApp({ log, redactor }: ServerOptions): App {
  return fastify<RawServerDefault, IncomingMessage, ServerResponse, Log>({
    ...settings,
    // Fastify's own lines contain paths. Failures are logged where they are answered.
    loggerInstance: log.child({}, { level: log.isLevelEnabled('warn') ? 'warn' : log.level }),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: ({ headers }) => publicId.safeParse(headers['x-request-id']).data ?? newNonce(),
    routerOptions: { maxParamLength: 512, querystringParser: queryWithoutEmpties },
    frameworkErrors: (error, request, reply) => sendError(error, request, reply, { log, redactor }),
    clientErrorHandler: answerClientError,
  }).withTypeProvider<ZodTypeProvider>();
}

/** A parameter without a value is as good as absent: forms send those. A condition is one with an empty text, too. */
function queryWithoutEmpties(text: string): Record<string, unknown> {
  const isGiven = ([name, value]: readonly [string, unknown]) => value !== '' || name.startsWith(metadataName);
  return Object.fromEntries(Object.entries(parseQuery(text)).filter(isGiven));
}

function setHeaders(app: App): void {
  app.addHook('onRequest', async (request, reply) => {
    void reply.headers({
      'x-request-id': request.id,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
  });
}

function countRequests(app: App, metrics: ProducerMetrics): void {
  app.addHook('onResponse', async (request, reply) => {
    const { url: route, config } = request.routeOptions;
    const durationMs = config.waits ? undefined : reply.elapsedTime;
    metrics.requestHandled({ route, method: request.method, status: reply.statusCode, durationMs });
  });
}

/** While the process drains, it only answers probes and scrapes, and uses no connection again. */
function watchAnswers(app: App, openAnswers: OpenAnswers): void {
  app.addHook('onRequest', async (request, reply) => {
    openAnswers.add(reply.raw);
    if (!openAnswers.draining || request.routeOptions.config.access === 'open') return;
    throw new RunError('queue_unavailable', 'this producer is shutting down; try again');
  });
  app.addHook('onSend', async (_request, reply) => {
    if (openAnswers.draining) void reply.header('connection', 'close');
  });
}

function readinessProbes(mill: Millrace): ReadinessProbes {
  return {
    writeProblem: () => mill.writeProblem(),
    durability: async () => (await mill.diagnose()).durability,
    // The route is open.
    providers: async () => (await mill.providers()).map(withoutWords),
    unservedQueues: async () => {
      const queues = Object.entries(await mill.queueDepths());
      return queues
        .filter(([name, { workers }]) => workers === 0 && runQueue.safeParse(name).success)
        .map(([name]) => name);
    },
  };
}

/**
 * Connections are cut once no answer is open on them: an idle one, and one that a browser opened ahead of need, would
 * keep the server from closing.
 */
async function drain(app: App, openAnswers: OpenAnswers): Promise<void> {
  const finished = openAnswers.drain(drainMs);
  const closed = app.close();
  await finished;
  app.server.closeAllConnections();
  await closed;
}
