import { z } from 'zod';
import { microcents } from '../money.ts';

/** Buckets of 10 seconds are kept for an hour, those of 10 minutes for a week. */
export const seriesSteps = [
  { stepS: 10, keptS: 3_600 },
  { stepS: 600, keptS: 7 * 86_400 },
] as const;

/** Names of agents, and of models, that one bucket counts apart; what is beyond them is counted as `other`. */
export const maxSeriesNames = 20;

/** Points of one answer, at most. */
export const maxSeriesPoints = 1_008;

const count = z.int().min(0);

const work = {
  ended: count.describe('Runs that ended.'),
  failed: count.describe('Those of them that failed.'),
  durationMs: count.describe('From their first start to their end, all of them together.'),
  toolCalls: count.describe('Calls that their models asked for.'),
  toolErrors: count.describe('Those of them that ended with an error.'),
};

const spent = {
  inputTokens: count.describe('With what was read from and written to the cache of the provider.'),
  outputTokens: count,
  costMicrocents: microcents.describe('Of model calls. What children spent is counted with the children.'),
};

/** What happened in one step of time. What a run used is counted when it ends. */
export const seriesPoint = z.object({
  at: z.string().describe('Where the step begins.'),
  queued: count.describe('Runs that were accepted, or redriven.'),
  started: count.describe('Runs that a worker began. One that goes on after a wait is not counted again.'),
  queueWaitMs: count.describe('From acceptance, or the end of a delay, to that; all of them together.'),
  maxQueueWaitMs: count.describe('The longest of these waits.'),
  ...work,
  ...spent,
  endedBy: z.record(z.string(), count).describe('Runs that ended, by status; those that there are.'),
  errors: z.record(z.string(), count).describe('Runs that failed, by the code of their error; those that there are.'),
});
export type SeriesPoint = z.infer<typeof seriesPoint>;

const agentSeries = z.object({ agent: z.string(), ...work, ...spent });
export type AgentSeries = z.infer<typeof agentSeries>;

const modelSeries = z.object({ model: z.string(), attempts: count, ...spent });
export type ModelSeries = z.infer<typeof modelSeries>;

/** What a tenant's runs did over time, for charts. The steps have no gap: one in which nothing happened has zeros. */
export const seriesReport = z.object({
  from: z.string(),
  to: z.string().describe('Where the last step ends. It may be in the future: that step is not over.'),
  stepS: count.describe('Seconds of one step.'),
  points: z.array(seriesPoint).describe('Oldest first.'),
  agents: z
    .array(agentSeries)
    .describe(
      `All steps together, most runs first; beyond ${maxSeriesNames} names in a bucket: \`other\`. A run that is redriven is in \`ended\`, \`failed\` and \`durationMs\` once, as it ended last; in \`points\` each end counts where it was.`,
    ),
  models: z.array(modelSeries).describe('The same by model, the most expensive first.'),
});
export type SeriesReport = z.infer<typeof seriesReport>;
