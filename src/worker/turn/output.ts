import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { messageOf, RunError } from '../../shared/base/errors.ts';
import { depthOver, jsonOr, maxLevels } from '../../shared/base/json.ts';

const maxListedProblems = 5;

/** The answer as data, or why it is none. */
export type Output =
  | { readonly kind: 'valid'; readonly value: unknown }
  | { readonly kind: 'invalid'; readonly error: RunError };

type JsonSchema = Readonly<Record<string, unknown>>;

/** What is asked of a final answer, and how often the model may repair it. */
export interface OutputRule {
  /** JSON Schema. Absent: any text will do. */
  readonly outputSchema?: JsonSchema | undefined;
  /** `parse`: JSON of any shape will do. Default `deep`. */
  readonly outputValidation?: 'deep' | 'parse' | undefined;
  /** Default 0. */
  readonly outputRepairAttempts?: number | undefined;
}

/** What a provider gets about the wanted shape. */
export function responseFormatOf(schema: JsonSchema): Record<string, unknown> {
  return { type: 'json_schema', json_schema: { name: 'output', schema } };
}

/** What is wrong with a final answer, for the model to repair; undefined when nothing is. */
export function problemToRepair(text: string, { outputSchema, outputValidation }: OutputRule): string | undefined {
  if (!outputSchema) return undefined;
  const output = readOutput(text, outputSchema, outputValidation);
  return output.kind === 'valid' ? undefined : output.error.message;
}

/** Why a schema cannot be used to check answers; undefined when it can. */
export function schemaProblem(schema: JsonSchema): string | undefined {
  try {
    validatorOf(schema);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/**
 * Reads a final answer against its schema: a code fence around it is ignored; text that is not JSON is `validation`, JSON
 * of another shape `output_validation_failed`, unless it only has to be parsed. Schemas come from the authors of agents,
 * who are trusted like their code: a `pattern` that backtracks for ever can block the worker, so never pass a schema from
 * anybody else.
 */
export function readOutput(text: string, schema: JsonSchema, validation: 'deep' | 'parse' = 'deep'): Output {
  const json = withoutFence(text);
  // What is too deep could not be written to the journal again.
  const value = depthOver(json, maxLevels) ? undefined : jsonOr(json);
  if (value === undefined) return invalid('validation', 'the answer is not JSON, which its output schema asks for');
  if (validation === 'parse') return { kind: 'valid', value };
  try {
    const validate = validatorOf(schema);
    if (validate(value)) return { kind: 'valid', value };
    const problems = (validate.errors ?? []).slice(0, maxListedProblems);
    const list = problems.map(
      ({ instancePath, message }) => `${instancePath || 'the answer'} ${message ?? 'is wrong'}`,
    );
    return invalid('output_validation_failed', `the answer does not match the output schema: ${list.join('; ')}`);
  } catch (cause) {
    return invalid('validation', 'the output schema of the agent cannot be used', cause);
  }
}

/** Compiled once per schema and forgotten with it. Each has an Ajv of its own: ids of different schemas may collide. */
const validators = new WeakMap<object, ValidateFunction>();

function validatorOf(schema: JsonSchema): ValidateFunction {
  let validate = validators.get(schema);
  if (!validate) {
    validate = new Ajv2020({ strict: false, allErrors: false, logger: false }).compile(schema);
    validators.set(schema, validate);
  }
  return validate;
}

function withoutFence(text: string): string {
  const trimmed = text.trim();
  if (!trimmed.startsWith('```') || !trimmed.endsWith('```')) return trimmed;
  const afterFirstLine = trimmed.indexOf('\n');
  return afterFirstLine === -1 ? trimmed : trimmed.slice(afterFirstLine, -3).trim();
}

function invalid(code: 'validation' | 'output_validation_failed', message: string, cause?: unknown): Output {
  return { kind: 'invalid', error: new RunError(code, message, { cause }) };
}
