import { z } from 'zod';
import { sensitivity } from '../message.ts';

const tiers = z.array(sensitivity).min(1).max(sensitivity.options.length);

const historyFilter = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('last-n'), n: z.int().min(1) }),
  z.strictObject({ kind: z.literal('last-user') }),
  z.strictObject({ kind: z.literal('full') }),
  /** In UTF-16 units. */
  z.strictObject({ kind: z.literal('summary'), summaryLength: z.int().min(200).max(65_536) }),
  z.strictObject({ kind: z.literal('strip-reasoning') }),
  z.strictObject({ kind: z.literal('strip-sensitive-outputs') }),
  z.strictObject({ kind: z.literal('strip-tool-calls') }),
  z.strictObject({ kind: z.literal('custom') }),
]);

const kind = z.literal('sensitivity-filter');
const sensitivityFilter = z.union([
  z.strictObject({ kind, keep: tiers }),
  z.strictObject({ kind, drop: tiers }),
  z.strictObject({ kind, require: tiers }),
  z.strictObject({ kind, maxTier: sensitivity }),
]);

const filterStep = z.union([historyFilter, sensitivityFilter]);

/**
 * What was done to the messages that crossed from one agent to another, as data: kept with the handoff, so that the same
 * messages give the same payload again. `custom` says only that a function decided: it cannot be replayed.
 */
export const handoffFilterDescriptor = z.union([
  filterStep,
  /** One after the other. A composition of compositions is written as one list. */
  z.strictObject({ kind: z.literal('compose'), steps: z.array(filterStep).max(32) }),
]);

export type HandoffFilterStep = z.infer<typeof filterStep>;
export type HandoffFilterDescriptor = z.infer<typeof handoffFilterDescriptor>;
export type SensitivityRule = z.infer<typeof sensitivityFilter>;
