import { z } from 'zod';
import { schemaProblem } from '../turn/output.ts';

type JsonSchema = Record<string, unknown>;

/** The output schema of an agent as JSON Schema, or what is wrong with it. Anything that is no schema stays as it is. */
export function outputSchemaOf(given: unknown): { readonly schema?: unknown; readonly problem?: string } {
  if (given === undefined || given === null || typeof given !== 'object') return { schema: given };
  if (!isZod(given)) return checked({ ...given });
  try {
    return checked(z.toJSONSchema(given));
  } catch (error) {
    return { problem: `has no JSON Schema (${error instanceof Error ? error.message : String(error)})` };
  }
}

/** The dialect is always the same one: a schema that names another would not be found. */
function checked(given: JsonSchema): { readonly schema: JsonSchema; readonly problem?: string } {
  const schema = { ...given };
  delete schema['$schema'];
  const problem = schemaProblem(schema);
  return problem === undefined ? { schema } : { schema, problem: `cannot be used: ${problem}` };
}

/** Also by another copy of zod. */
function isZod(value: object): value is z.ZodType {
  return '_zod' in value;
}
