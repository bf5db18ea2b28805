import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import { RunError } from '../shared/base/errors.ts';
import { isRecord, jsonOr, jsonText } from '../shared/base/json.ts';
import { problemsOf } from '../shared/base/problems.ts';
import { isSecretName, type Redactor } from '../shared/base/redact.ts';
import { finishReason } from '../shared/contract/event.ts';
import { assistantMessage, sensitivity } from '../shared/contract/message.ts';
import { usage } from '../shared/contract/money.ts';
import { llmErrorKind } from '../worker/llm/errors.ts';
import type { LlmPart, LlmRequest } from '../worker/llm/provider.ts';
import { hole } from './difference.ts';

const recordedPart = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), delta: z.string() }),
  z.object({ type: z.literal('reasoning'), delta: z.string() }),
  z.object({ type: z.literal('tool_call_start'), id: z.string(), name: z.string() }),
  z.object({ type: z.literal('tool_call_delta'), id: z.string(), delta: z.string() }),
  z.object({ type: z.literal('tool_relayed_call'), id: z.string(), name: z.string(), args: z.unknown() }),
  z.object({ type: z.literal('tool_relayed_result'), id: z.string(), output: z.string(), isError: z.boolean() }),
]);

const recordedAnswer = z.object({
  message: assistantMessage,
  finishReason,
  incompleteToolCalls: z.array(z.object({ id: z.string(), name: z.string() })),
  usage: usage.optional(),
});
export type RecordedAnswer = z.infer<typeof recordedAnswer>;

const recordedError = z.object({
  kind: llmErrorKind,
  message: z.string(),
  retryable: z.boolean(),
  status: z.int().optional(),
  code: z.string().optional(),
  retryAfterMs: z.number().optional(),
  usage: usage.optional(),
});
export type RecordedError = z.infer<typeof recordedError>;

const asked = { request: z.record(z.string(), z.unknown()), parts: z.array(recordedPart) };
const exchange = z.union(
  [z.object({ ...asked, answer: recordedAnswer }), z.object({ ...asked, error: recordedError })],
  'must have `request`, `parts`, and `answer` or `error`',
);
/** One request with what came of it. */
export type Exchange = z.infer<typeof exchange>;

const recording = z.object({
  v: z.literal(1),
  provider: z.object({
    id: z.string(),
    capabilities: z.object({
      tools: z.boolean(),
      reasoning: z.boolean(),
      streaming: z.boolean().optional(),
      responseFormat: z.boolean().optional(),
      fileUrls: z.boolean().optional(),
    }),
    acceptsSensitivity: z.array(sensitivity).optional(),
  }),
  /** By model: what the provider said about its context window. */
  contextWindows: z.record(z.string(), z.int()),
  exchanges: z.array(exchange),
});
/** A conversation with a provider, as a file has it. */
export type Recording = z.infer<typeof recording>;

/** The recording in a file; undefined when there is no file. Throws `validation` that names the file and every problem. */
export function readRecording(file: string): Recording | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new RunError('validation', `recording ${file} cannot be read`, { cause: error });
  }
  const read = recording.safeParse(jsonOr(text));
  if (read.success) return read.data;
  const problems = problemsOf(read.error, 'the file');
  const hint = 'It was cut or edited, or made by another version: delete it to record it again.';
  throw new RunError('validation', `recording ${file} cannot be used:\n  ${problems.join('\n  ')}\n${hint}`, {
    details: problems,
  });
}

/** Writes the file as a whole: a reader never sees a part of it. */
export function writeRecording(file: string, content: Recording): void {
  mkdirSync(dirname(file), { recursive: true });
  const unfinished = `${file}.${process.pid}.tmp`;
  writeFileSync(unfinished, `${jsonText(content, null, 2)}\n`);
  renameSync(unfinished, file);
}

/** What a recording keeps of a request: all that a model sees of it. Ids of runs, and what is derived from them, are taken out. */
export function comparable(
  {
    requestId,
    idempotencyKey: _key,
    sessionToken: _session,
    checkpointToken: _check,
    metadata: _about,
    ...seen
  }: LlmRequest,
  redactor: Redactor,
  normalise: (text: string) => string,
): Record<string, unknown> {
  const [runId = ''] = requestId.split(':');
  const stable = (text: string) =>
    normalise(text.replaceAll(markerId, ` id="…">>>`).replaceAll(runId === '' ? requestId : runId, '<run>'));
  return withoutSecrets(JSON.parse(jsonText(seen)), redactor, stable) as Record<string, unknown>;
}

/** Untrusted text stands between markers whose ids are made of the run's id. */
const markerId = / id="[0-9a-f]{12}">>>/g;

/**
 * A copy of a JSON value in which every text and name is without credentials, and a text or number under a name like `api_key`,
 * by itself or in a list, is taken out: also inside texts that are JSON, as arguments and results of tools are.
 */
export function withoutSecrets(value: unknown, redactor: Redactor, stable = (text: string) => text): unknown {
  if (typeof value === 'string') return textWithoutSecrets(stable(value), redactor);
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, redactor, stable));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => {
      const kept = isSecretName(name) ? withoutValues(item) : item;
      return [redactor.text(name), withoutSecrets(kept, redactor, stable)];
    }),
  );
}

/** Without the text or number, or those in a list. What is an object is none: schemas describe fields of such names. */
function withoutValues(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutValues);
  return typeof value === 'string' || typeof value === 'number' ? hole : value;
}

const jsonLeaf = String.raw`(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*)`;
const jsonLeaves = String.raw`\[\s*${jsonLeaf}(?:\s*,\s*${jsonLeaf})*\s*\]`;
/** A field with a text, a number or a list of them, also where JSON is only a part of a text. */
const jsonField = new RegExp(String.raw`("([\w-]{1,128})"\s*:\s*)(?:${jsonLeaf}|${jsonLeaves})`, 'g');

function textWithoutSecrets(text: string, redactor: Redactor): string {
  const clean = redactor
    .text(text)
    .replace(jsonField, (field, before: string, name: string) => (isSecretName(name) ? `${before}"${hole}"` : field));
  const value = jsonOr(clean);
  if (value === null || typeof value !== 'object') return clean;
  const [before, after] = [jsonText(value), jsonText(withoutSecrets(value, redactor))];
  return before === after ? clean : after;
}

/** The parts without secrets, also without those that are split over several. */
export function partsWithoutSecrets(parts: readonly LlmPart[], redactor: Redactor): LlmPart[] {
  const whole = new Map<string, string>();
  for (const part of parts) {
    const key = streamOf(part);
    if (key !== undefined && 'delta' in part) whole.set(key, (whole.get(key) ?? '') + part.delta);
  }
  const cleaned = new Map(
    [...whole].flatMap(([key, text]) => {
      const clean = textWithoutSecrets(text, redactor);
      return clean === text ? [] : [[key, clean] as const];
    }),
  );
  const written = new Set<string>();
  return parts.flatMap((part): LlmPart[] => {
    const key = streamOf(part);
    if (key === undefined || !('delta' in part)) return [withoutSecrets(part, redactor) as LlmPart];
    const clean = cleaned.get(key);
    if (clean === undefined) return [part];
    if (written.has(key)) return [];
    written.add(key);
    return [{ ...part, delta: clean }];
  });
}

/** Which text of the answer a part is a piece of. */
function streamOf(part: LlmPart): string | undefined {
  if (part.type === 'tool_call_delta') return `call ${part.id}`;
  return 'delta' in part ? part.type : undefined;
}
