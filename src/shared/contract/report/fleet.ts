import { z } from 'zod';
import { providerReport } from '../provider-report.ts';

const count = z.int().min(0);

/** Jobs of a queue by state, and the live workers that serve it. */
export const queueState = z.object({ waiting: count, active: count, delayed: count, failed: count, workers: count });

/** A run on a worker. */
const workingOn = z.object({ runId: z.string(), agent: z.string(), since: z.string().describe('ISO time.') });

const fleetWorker = z.object({
  name: z.string(),
  version: z.string(),
  queues: z.array(z.string()),
  concurrency: count.describe('Runs at once, at most.'),
  active: count.describe('Runs of all tenants now.'),
  heartbeatAgeMs: count.describe(
    'Since its last heartbeat: one comes every few seconds, and after 15 without it is no longer listed.',
  ),
  startedAt: z.string().optional().describe('ISO time. Absent: its version does not say.'),
  runs: z.array(workingOn).describe('Those of the own tenant, the longest first, at most 50.'),
});
export type FleetWorker = Readonly<z.infer<typeof fleetWorker>>;

/** What a limiter allows within its window, and what of it is in use. */
export const providerLimit = z.object({
  model: z.string(),
  windowMs: count,
  requests: count.describe('Allowed within the window. 0: no limit is known.'),
  usedRequests: count,
  tokens: count.describe('Allowed within the window. 0: no limit is known.'),
  usedTokens: count,
  concurrency: count.describe('Calls at the same time. 0: no limit is known.'),
  inFlight: count,
  waiting: count.describe('Calls and runs of all tenants that wait for their turn.'),
  cooldownMs: count.describe('Until the provider is asked again, after it has refused. 0: now.'),
});
export type ProviderLimit = Readonly<z.infer<typeof providerLimit>>;

/** A model or a tool that failed lately, over all workers. */
export const breakerState = z.object({
  target: z.string().describe('`provider/model`, or `tool:name`.'),
  failures: count,
  openForMs: count.optional().describe('Until it may be tried again: 0 from then on. Absent: it is called as usual.'),
});

/** What there is to do, who does it, and what holds it up. */
export const fleetView = z.object({
  queues: z.record(z.string(), queueState).describe('By name.'),
  providers: z.array(providerReport),
  workers: z.array(fleetWorker),
  limits: z.array(providerLimit).describe('Of models that were asked in the last day, the latest first.'),
  breakers: z.array(breakerState),
});
export type FleetView = Readonly<z.infer<typeof fleetView>>;

/** One line of `doctor`. `warn` can wait, `fail` needs attention; `advice` is what to do. */
export const check = z.object({
  name: z.string(),
  level: z.enum(['ok', 'warn', 'fail']),
  text: z.string(),
  advice: z.string().optional(),
});
export type Check = Readonly<z.infer<typeof check>>;
