import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { RunError } from '../../shared/base/errors.ts';
import { depthOver, maxLevels } from '../../shared/base/json.ts';

const maxListedProblems = 5;

/** The answer as data, or why it is none. */
export type Output =
  | { readonly kind: 'valid'; readonly value: unknown }
  | { readonly kind: 'invalid'; readonly error: RunError };

/** What is asked of a final answer, and how often the model may repair it. */
export interface OutputRule {
  /** JSON Schema. Absent: any text will do. */
  readonly outputSchema?: Readonly<Record<string, unknown>> | undefined;
  /** `parse`: JSON of any shape will do. Default `deep`. */
  readonly outputValidation?: 'deep' | 'parse' | undefined;
  /** Default 0. */
  readonly outputRepairAttempts?: number | undefined;
}

/** What a provider gets about the wanted shape. */
export function responseFormatOf(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { type: 'json_schema', json_schema: { name: 'output', schema } };
}

/** What is wrong with a final answer, for the model to repair; undefined when nothing is. */
export function problemToRepair(text: string, { outputSchema, outputValidation }: OutputRule): string | undefined {
  if (!outputSchema) return undefined;
  const output = readOutput(text, outputSchema, outputValidation);
  return output.kind === 'valid' ? undefined : output.error.message;
}

/** Why a schema cannot be used to check answers; undefined when it can. */
export function schemaProblem(schema: Readonly<Record<string, unknown>>): string | undefined {
  try {
    validatorOf(schema);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/**
 * Reads a final answer against its schema: a code fence around it is ignored; text that is not JSON is `validation`, JSON
 * of another shape `output_validation_failed`, unless it only has to be parsed. Schemas come from the authors of agents,
 * who are trusted like their code: a `pattern` that backtracks for ever can block the worker, so never pass a schema from
 * anybody else.
 */
export function readOutput(
  text: string,
  schema: Readonly<Record<string, unknown>>,
  validation: 'deep' | 'parse' = 'deep',
): Output {
  const json = withoutFence(text);
  const parsed = parse(json);
  if (!parsed) return invalid('validation', 'the answer is not JSON, which its output schema asks for');
  if (validation === 'parse') return { kind: 'valid', value: parsed.value };
  try {
    const validate = validatorOf(schema);
    if (validate(parsed.value)) return { kind: 'valid', value: parsed.value };
    const problems = (validate.errors ?? []).slice(0, maxListedProblems);
    const list = problems.map(
      ({ instancePath, message }) => `${instancePath || 'the answer'} ${message ?? 'is wrong'}`,
    );
    return invalid('output_validation_failed', `the answer does not match the output schema: ${list.join('; ')}`);
  } catch (cause) {
    return {
      kind: 'invalid',
      error: new RunError('validation', 'the output schema of the agent cannot be used', { cause }),
    };
  }
}

/** Compiled once per schema and forgotten with it. Each has an Ajv of its own: ids of different schemas may collide. */
const validators = new WeakMap<object, ValidateFunction>();

function validatorOf(schema: Readonly<Record<string, unknown>>): ValidateFunction {
  let validate = validators.get(schema);
  if (!validate) {
    validate = new Ajv2020({ strict: false, allErrors: false, logger: false }).compile(schema);
    validators.set(schema, validate);
  }
  return validate;
}

/** Undefined for what is not JSON, or too deep to be written to the journal again. */
function parse(json: string): { readonly value: unknown } | undefined {
  if (depthOver(json, maxLevels)) return undefined;
  try {
    return { value: JSON.parse(json) };
  } catch {
    return undefined;
  }
}

function withoutFence(text: string): string {
  const trimmed = text.trim();
  if (!trimmed.startsWith('```') || !trimmed.endsWith('```')) return trimmed;
  const afterFirstLine = trimmed.indexOf('\n');
  return afterFirstLine === -1 ? trimmed : trimmed.slice(afterFirstLine, -3).trim();
}

function invalid(code: 'validation' | 'output_validation_failed', message: string): Output {
  return { kind: 'invalid', error: new RunError(code, message) };
}
