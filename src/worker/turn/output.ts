import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { RunError } from '../../shared/errors.ts';
import { depthOver } from '../tools/json.ts';

const maxOutputDepth = 64;
const maxListedProblems = 5;

/** The answer as data, or why it is none. */
export type Output =
  | { readonly kind: 'valid'; readonly value: unknown }
  | { readonly kind: 'invalid'; readonly error: RunError };

/** What a provider is told about the wanted shape. */
export function responseFormatOf(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { type: 'json_schema', json_schema: { name: 'output', schema } };
}

/**
 * Reads a final answer against its schema: a code fence around it is ignored; text that is not JSON is `validation`, JSON
 * of another shape `output_validation_failed`. Schemas come from the authors of agents, who are trusted like their code:
 * a `pattern` that backtracks for ever can block the worker, so never pass a schema from anybody else.
 */
export function readOutput(text: string, schema: Readonly<Record<string, unknown>>): Output {
  const json = withoutFence(text);
  const parsed = parse(json);
  if (!parsed) return invalid('validation', 'the answer is not JSON, which its output schema asks for');
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
  if (depthOver(json, maxOutputDepth)) return undefined;
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
