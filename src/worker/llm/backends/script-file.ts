import { z } from 'zod';
import { createBuiltinScript } from './builtin-script.ts';
import type { LlmRequest } from '../provider.ts';
import { fileAnswer, turnOf, type TurnSoFar, type ModelScript, type ScriptedAnswer } from './scripted.ts';
import { fileLabel } from '../../../shared/contract/input-parts.ts';
import { readYamlFile } from '../../../shared/base/yaml-file.ts';

const rule = z.strictObject({
  /** All that are given must match. */
  when: z
    .strictObject({
      agent: z.string().optional(),
      /** Text that the user's message contains, in any case. */
      user: z.string().optional(),
      /** Are there images or PDFs with the user's message? */
      hasFiles: z.boolean().optional(),
      /** Has a tool answered since the user's message? */
      hasToolResult: z.boolean().optional(),
      /** A tool of this name is on offer. */
      toolNamed: z.string().optional(),
    })
    .default({}),
  answer: fileAnswer.refine((answer) => Object.keys(answer).length > 0, 'is empty'),
});

const scriptFile = z.strictObject({ rules: z.array(rule).min(1).max(1_000) });
type Rule = z.infer<typeof rule>;

/**
 * Reads a script from YAML. The first rule that matches answers; where none does, the built-in script does. In texts and
 * arguments `{{input}}` is the user's message, `{{files}}` the images and PDFs that came with it, and `{{toolResult}}` the last tool
 * result. Throws `invalid_config` whose
 * details list every problem.
 */
export function loadModelScript(path: string): ModelScript {
  const { rules } = readYamlFile(path, scriptFile);
  const otherwise = createBuiltinScript();
  return (request, signal) => {
    const turn = turnOf(request);
    const found = rules.find(({ when }) => matches(when, request, turn));
    return found ? fill(found.answer, turn) : otherwise(request, signal);
  };
}

function matches(when: Rule['when'], request: LlmRequest, turn: TurnSoFar): boolean {
  const { agent, user, hasFiles, hasToolResult, toolNamed } = when;
  if (hasFiles !== undefined && hasFiles !== turn.files.length > 0) return false;
  if (agent !== undefined && request.metadata?.['agent_name'] !== agent) return false;
  if (user !== undefined && !turn.input.toLowerCase().includes(user.toLowerCase())) return false;
  if (hasToolResult !== undefined && hasToolResult !== turn.results.length > 0) return false;
  return toolNamed === undefined || Boolean(request.tools?.some((tool) => tool.name === toolNamed));
}

function fill(answer: Rule['answer'], turn: TurnSoFar): ScriptedAnswer {
  const files = turn.files.map(fileLabel).join(', ');
  const values = { input: turn.input, files, toolResult: turn.results.at(-1)?.content ?? '' };
  return { ...answer, text: filled(answer.text, values), toolCalls: filled(answer.toolCalls, values) };
}

/** Replaces the templates in every string of a value. */
function filled<T>(value: T, values: Readonly<Record<string, string>>): T;
function filled(value: unknown, values: Readonly<Record<string, string>>): unknown {
  if (typeof value === 'string')
    return value.replace(/\{\{(input|files|toolResult)\}\}/g, (_, name: string) => values[name] ?? '');
  if (Array.isArray(value)) return value.map((item: unknown) => filled(item, values));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, filled(item, values)]));
}
