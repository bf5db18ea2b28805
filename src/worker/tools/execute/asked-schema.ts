import { jsonText } from '../../../shared/base/json.ts';
import { setNames } from '../configure.ts';
import type { Tool } from '../tool.ts';
import { checkedForm } from '../mcp/schema.ts';

/** Of one schema that travels with a call which waits for people. */
const maxSchemaChars = 16_384;

/**
 * The schema of the arguments that a person may give a call in place of the model's, so that a form can be made of it, and a
 * producer, which has no code of tools, can refuse others. Without its texts where it is too large with them, and undefined where it still
 * is: then only the worker checks them.
 */
export function askedSchema(
  tool: Pick<Tool, 'parameters' | 'fixedArgs' | 'inputMapping'>,
): Record<string, unknown> | undefined {
  const purposes = ['asked', 'checked'] as const;
  return purposes
    .map((purpose) => withoutFixed(checkedForm(tool.parameters, purpose), setNames(tool)))
    .find((schema) => jsonText(schema).length <= maxSchemaChars);
}

/** What the agent sets itself no person may set. */
function withoutFixed(schema: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  if (names.length === 0) return schema;
  const properties = schema['properties'] as Record<string, unknown> | undefined;
  return { ...schema, properties: { ...properties, ...Object.fromEntries(names.map((name) => [name, false])) } };
}
