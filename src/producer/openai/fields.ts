import { z } from 'zod';
import { jsonText } from '../../shared/base/json.ts';

/**
 * What becomes of a field of OpenAI's API: it is mapped to a field of the run, decided by the agent whatever the caller asks for,
 * or refused, but for values that ask for nothing.
 */
export interface Treatment {
  readonly kind: 'mapped' | 'agent' | 'refused';
  /** What it becomes, what the agent has in its place, or why it is refused. */
  readonly why: string;
}

const treatments = new WeakMap<z.ZodType, Treatment>();

/** What becomes of the field that this schema is of. */
export function treatmentOf(schema: z.ZodType): Treatment | undefined {
  return treatments.get(schema);
}

/** `to` says what of the run it becomes. */
export function mapped<T extends z.ZodType>(schema: T, to: string): z.ZodOptional<T> {
  return treated(schema.optional().describe(`${to}.`), { kind: 'mapped', why: to });
}

/** The same for a field that every request has. */
export function required<T extends z.ZodType>(schema: T, to: string): T {
  return treated(schema.describe(`${to}.`), { kind: 'mapped', why: to });
}

/** The agent has it, or not. The answer names such fields in a header. */
export function byAgent<T extends z.ZodType>(schema: T, to: string): z.ZodOptional<T> {
  return treated(schema.optional().describe(`Decided by the agent: ${to}.`), { kind: 'agent', why: to });
}

/** `harmless` are the values that ask for nothing. An empty list and an empty object never do. */
export function refused(why: string, harmless: readonly unknown[] = []): z.ZodOptional<z.ZodUnknown> {
  const schema = z
    .unknown()
    .refine((value) => isEmpty(value) || isOneOf(harmless, value), `is refused: ${why}`)
    .optional()
    .describe(`Refused: ${why}.`);
  return treated(schema, { kind: 'refused', why });
}

function treated<T extends z.ZodType>(schema: T, treatment: Treatment): T {
  treatments.set(schema, treatment);
  return schema;
}

function isOneOf(harmless: readonly unknown[], value: unknown): boolean {
  const text = jsonText(value);
  return harmless.some((one) => jsonText(one) === text);
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** The fields of a body that the agent decides, as far as the body has them. */
export function leftToAgent(shape: Readonly<Record<string, z.ZodType>>, body: unknown): readonly string[] {
  if (body === null || typeof body !== 'object') return [];
  return Object.entries(body).flatMap(([name, value]) => {
    const schema = Object.hasOwn(shape, name) ? shape[name] : undefined;
    return value !== null && schema && treatmentOf(schema)?.kind === 'agent' ? [name] : [];
  });
}

/** The body without fields that are null: their clients send those for what is absent. */
export function withoutNulls(body: unknown): unknown {
  if (body === null || typeof body !== 'object' || Array.isArray(body)) return body;
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}
