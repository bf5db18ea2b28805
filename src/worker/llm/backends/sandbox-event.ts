import { z } from 'zod';
import { finishReason } from '../../../shared/contract/event.ts';
import { isRecord, jsonText } from '../../../shared/base/json.ts';
import { usage } from '../../../shared/contract/money.ts';

const text = z.string();
const id = z.string().min(1);
const args = z.unknown().transform((value): unknown => value ?? {});
const anyText = z.unknown().transform((value) => (typeof value === 'string' ? value : (jsonText(value) ?? '')));

/** What a box does, in our words. A `mapEvent` returns one of these. */
const sandboxEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), delta: text }),
  z.object({ type: z.literal('reasoning'), delta: text }),
  z.object({ type: z.literal('tool_call'), id, name: text, args }),
  z.object({ type: z.literal('tool_result'), id, output: anyText, isError: z.boolean().optional() }),
  z.object({
    type: z.literal('final'),
    text: text.optional(),
    finishReason: finishReason.optional().catch(undefined),
    usage: usage.optional().catch(undefined),
  }),
  z.object({ type: z.literal('error'), message: anyText }),
]);
export type SandboxEvent = z.infer<typeof sandboxEvent>;

/** The spellings that boxes use, by the type of the event in lower case without separators. */
const kinds: Readonly<Record<string, SandboxEvent['type']>> = {
  text: 'text',
  textdelta: 'text',
  reasoning: 'reasoning',
  reasoningdelta: 'reasoning',
  thinking: 'reasoning',
  toolcall: 'tool_call',
  tooluse: 'tool_call',
  toolresult: 'tool_result',
  final: 'final',
  result: 'final',
  done: 'final',
  completed: 'final',
  error: 'error',
};

/** The names of a field of ours at boxes; the first one that is there counts. */
const spellings: Readonly<Record<SandboxEvent['type'], Readonly<Record<string, readonly string[]>>>> = {
  text: { delta: ['delta', 'text', 'content'] },
  reasoning: { delta: ['delta', 'text', 'content'] },
  tool_call: {
    id: ['id', 'toolCallId', 'callId'],
    name: ['name', 'toolName', 'tool'],
    args: ['args', 'input', 'arguments'],
  },
  tool_result: {
    id: ['id', 'toolCallId', 'callId'],
    output: ['output', 'result', 'content'],
    isError: ['isError', 'is_error'],
  },
  final: { text: ['text', 'result', 'output'], finishReason: ['finishReason'], usage: ['usage'] },
  error: { message: ['message', 'error'] },
};

/** The usual events of a box: text, reasoning, tool call, tool result, final. Undefined for any other. */
export function sandboxEventOf(raw: unknown): SandboxEvent | undefined {
  if (!isRecord(raw)) return undefined;
  const type = kinds[typeof raw['type'] === 'string' ? raw['type'].toLowerCase().replace(/[^a-z]/g, '') : ''];
  if (!type) return undefined;
  const fields = Object.entries(spellings[type]).map(([field, names]) => {
    return [field, names.map((name) => raw[name]).find((value) => value !== undefined)];
  });
  return sandboxEvent.safeParse({ type, ...Object.fromEntries(fields) }).data;
}
