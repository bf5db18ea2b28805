import { isRecord } from '../../../shared/base/json.ts';
import { fileLabel } from '../../../shared/contract/input-parts.ts';
import type { AdvertisedTool, LlmRequest } from '../provider.ts';
import { turnOf, type ModelScript } from './scripted.ts';

const maxShownChars = 400;

/**
 * What answers when no model is configured: asks one fitting tool, then repeats its result; without tools it repeats the
 * input. Enough to see streaming, tool calls and costs on a machine without any account.
 */
export function createBuiltinScript(): ModelScript {
  return (request) => {
    const { input, files, results } = turnOf(request);
    const last = results.at(-1);
    if (last) {
      const verb = last.isError ? 'failed with' : 'answered';
      return { text: `The tool ${last.toolName} ${verb}: ${shown(last.content)}` };
    }
    const tool = toolFor(request, input);
    if (tool) return { toolCalls: [{ name: tool.name, args: argsFor(tool.parameters, input) }] };
    const sent = files.length === 0 ? '' : ` You sent ${files.map(fileLabel).join(', ')}.`;
    return {
      text: `You said: ${shown(input)}.${sent} This is the built-in scripted model; set OPENAI_API_KEY to talk to a real one.`,
    };
  };
}

/** The tool that the request demands, else the first one that shares a word with the input, else the first. */
function toolFor(request: LlmRequest, input: string): AdvertisedTool | undefined {
  const { tools = [], toolChoice } = request;
  if (toolChoice === 'none') return undefined;
  if (typeof toolChoice === 'object') return tools.find((tool) => tool.name === toolChoice.name);
  const words = new Set(wordsOf(input));
  const isFitting = (text: string) => wordsOf(text).some((word) => words.has(word));
  return tools.find((tool) => isFitting(tool.name)) ?? tools.find((tool) => isFitting(tool.description)) ?? tools[0];
}

/** Words of four letters or more: shorter ones are in every sentence. */
function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[a-z]{4,}/g) ?? [];
}

type Schema = Readonly<Record<string, unknown>>;

/** Arguments that fit a JSON Schema as far as the user's text allows: the required ones, nothing more. */
export function argsFor(schema: Schema, input: string): Record<string, unknown> {
  const value = valueFor({ ...schema, type: 'object' }, input, 0);
  return isRecord(value) ? { ...value } : {};
}

function valueFor(schema: unknown, input: string, depth: number): unknown {
  if (!isRecord(schema) || depth > 8) return input;
  if ('const' in schema) return schema['const'];
  if (Array.isArray(schema['enum'])) return chosenFrom(schema['enum'], input);
  const options = schema['anyOf'] ?? schema['oneOf'];
  if (Array.isArray(options)) return valueFor(options[0], input, depth + 1);
  switch (Array.isArray(schema['type']) ? schema['type'][0] : schema['type']) {
    case 'object':
      return objectFor(schema, input, depth);
    case 'array':
      return [valueFor(schema['items'], input, depth + 1)];
    case 'number':
    case 'integer':
      return numberFor(schema, input);
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return textFor(input);
  }
}

function objectFor(schema: Schema, input: string, depth: number): Record<string, unknown> {
  const properties = isRecord(schema['properties']) ? schema['properties'] : {};
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  return Object.fromEntries(required.map((name: string) => [name, valueFor(properties[name], input, depth + 1)]));
}

/** The value that the user named, else the first. */
function chosenFrom(values: readonly unknown[], input: string): unknown {
  const text = input.toLowerCase();
  return values.find((value) => typeof value === 'string' && text.includes(value.toLowerCase())) ?? values[0];
}

function numberFor(schema: Schema, input: string): number {
  const found = Number(/-?\d+(?:\.\d+)?/.exec(input)?.[0] ?? 1);
  const number = schema['type'] === 'integer' ? Math.trunc(found) : found;
  const { minimum, maximum } = schema;
  return Math.min(
    Math.max(number, typeof minimum === 'number' ? minimum : number),
    typeof maximum === 'number' ? maximum : number,
  );
}

/** The first thing that looks like a link, a number or an id (`#7`, `A-1042`), else the input as it is shown. */
function textFor(input: string): string {
  const found = /https?:\/\/\S+|#?[A-Za-z]*[-_]?\d[\w.-]*/.exec(input)?.[0];
  return found?.replace(/^#|[.,;:!?]+$/g, '') ?? shown(input);
}

function shown(text: string): string {
  return text.length <= maxShownChars ? text : `${text.slice(0, maxShownChars)}…`;
}
