import { z } from 'zod';
import { assertNever } from '../../../shared/base/errors.ts';
import { finishReason } from '../../../shared/contract/event.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { usage } from '../../../shared/contract/money.ts';

const text = z.string();
const id = z.string().min(1);

/** What a box does, in our words. A `mapEvent` returns one of these. */
const sandboxEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), delta: text }),
  z.object({ type: z.literal('reasoning'), delta: text }),
  z.object({ type: z.literal('tool_call'), id, name: z.string(), args: z.unknown() }),
  z.object({ type: z.literal('tool_result'), id, output: text, isError: z.boolean().optional() }),
  z.object({
    type: z.literal('final'),
    text: text.optional(),
    finishReason: finishReason.optional(),
    usage: usage.optional(),
  }),
  z.object({ type: z.literal('error'), message: text }),
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

/** The usual events of a box: text, reasoning, tool call, tool result, final. Undefined for any other. */
export function sandboxEventOf(raw: unknown): SandboxEvent | undefined {
  if (typeof raw !== 'object' || raw === null) return undefined;
  const event = raw as Readonly<Record<string, unknown>>;
  const kind = kinds[typeof event['type'] === 'string' ? event['type'].toLowerCase().replace(/[^a-z]/g, '') : ''];
  return kind && sandboxEvent.safeParse({ type: kind, ...fieldsOf(event, kind) }).data;
}

function fieldsOf(event: Readonly<Record<string, unknown>>, kind: SandboxEvent['type']) {
  const first = (...names: string[]) => names.map((name) => event[name]).find((value) => value !== undefined);
  switch (kind) {
    case 'text':
    case 'reasoning':
      return { delta: first('delta', 'text', 'content') };
    case 'tool_call':
      return {
        id: first('id', 'toolCallId', 'callId'),
        name: first('name', 'toolName', 'tool'),
        args: first('args', 'input', 'arguments') ?? {},
      };
    case 'tool_result':
      return {
        id: first('id', 'toolCallId', 'callId'),
        output: asText(first('output', 'result', 'content')),
        isError: first('isError', 'is_error'),
      };
    case 'final':
      return {
        text: first('text', 'result', 'output'),
        finishReason: finishReason.safeParse(event['finishReason']).data,
        usage: usage.safeParse(event['usage']).data,
      };
    case 'error':
      return { message: asText(first('message', 'error')) };
    default:
      return assertNever(kind);
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : (jsonText(value) ?? '');
}
