import { z } from 'zod';
import { costRow, costSums } from '../money.ts';

export const costGroup = z.enum(['tenant', 'agent', 'model', 'day']);
export type CostGroup = z.infer<typeof costGroup>;

/** One group: the fields that were asked to group by, and what its calls came to. */
const costGroupRow = z.object({
  tenant: z.string().optional(),
  day: costRow.shape.day.optional(),
  agent: z.string().optional(),
  /** With `model`: the same model of two providers makes two rows. */
  provider: z.string().optional(),
  model: z.string().optional(),
  ...costSums.shape,
});
export type CostGroupRow = z.infer<typeof costGroupRow>;

/** Costs of a tenant. Amounts are microcents; days are UTC, both ends included. */
export const costReport = z.object({
  from: costRow.shape.day,
  to: costRow.shape.day,
  by: z.array(costGroup),
  rows: z.array(costGroupRow),
  totals: costSums,
});
export type CostReport = z.infer<typeof costReport>;
