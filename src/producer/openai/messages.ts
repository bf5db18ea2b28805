import { z } from 'zod';
import type { HistoryMessage } from '../../shared/contract/request/history.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import { refused } from './fields.ts';

const ownTools = 'an agent has its own tools; leave calls and results of tools out, it looks up again what it needs';
const noPicture = 'this build reads text only here';

const textPart = z.strictObject({
  type: z.enum(['text', 'input_text', 'output_text']),
  text: z.string(),
  annotations: refused('an agent cites nothing of what was said before'),
  logprobs: refused('the request has no probabilities'),
});
const otherPart = z
  .looseObject({ type: z.enum(['image_url', 'input_image', 'input_file', 'file', 'input_audio', 'refusal']) })
  .refine(() => false, `is refused: ${noPicture}`);
const content = z.union([z.string(), z.array(z.discriminatedUnion('type', [textPart, otherPart]))]);
type Content = z.infer<typeof content>;

const noNames = refused('people in a conversation have no names here; write who speaks into the text');

/** A message of `chat.completions`. What that API answered may be sent back as it is. */
export const chatMessage = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['system', 'developer']), content, name: noNames }),
  z.strictObject({ role: z.literal('user'), content, name: noNames }),
  z.strictObject({
    role: z.literal('assistant'),
    content: content.nullish(),
    name: noNames,
    refusal: refused('an agent has no refusals beside its text'),
    annotations: refused('an agent cites nothing of what was said before'),
    audio: refused('an agent answers in text'),
    function_call: refused(ownTools),
    tool_calls: refused(ownTools),
  }),
  z
    .strictObject({ role: z.enum(['tool', 'function']) })
    .loose()
    .refine(() => false, `is refused: ${ownTools}`),
]);
export type ChatMessage = z.infer<typeof chatMessage>;

const itemFields = { id: z.string().max(256).nullish(), status: z.string().max(64).nullish() };

const messageItem = z.strictObject({
  type: z.literal('message').default('message'),
  ...itemFields,
  role: z.enum(['system', 'developer', 'user', 'assistant']),
  content,
  phase: refused('an agent has no phases'),
});
/** What the agent thought and what its tools did is its own: it is not read back. */
const ownItem = z.looseObject({ type: z.enum(['reasoning', 'mcp_call', 'mcp_list_tools', 'compaction']) });
const callItem = z.looseObject({ type: z.string() }).refine(() => false, `is refused: ${ownTools}`);

/** An item of the input of `responses`. What that API answered may be sent back as it is. */
export const inputItem = z.union([messageItem, ownItem, callItem]);
export type InputItem = z.infer<typeof inputItem>;

interface Said {
  readonly role: 'system' | 'developer' | 'user' | 'assistant';
  readonly content: string;
}

/** What a request says, in the parts that a run has for it. */
export interface Conversation {
  readonly history: readonly HistoryMessage[];
  readonly input: string;
  /** Of the caller, in their order. */
  readonly instructions: readonly string[];
}

/** `param`: the field that has the messages. Throws `validation` where the last of them is not the user's. */
export function conversationOf(said: readonly Said[], param: string): Conversation {
  const spoken = said.filter(({ role }) => role === 'user' || role === 'assistant');
  const last = spoken.at(-1);
  if (last?.role !== 'user') {
    const message = 'must end with a message of the user, which the agent answers';
    throw new RunError('validation', `the request is not valid: ${param}: ${message}`, {
      details: [{ path: param, message }],
    });
  }
  const history = spoken.slice(0, -1).flatMap(({ role, content: text }): HistoryMessage[] => {
    if (text === '') return [];
    return role === 'assistant' ? [{ role, content: text }] : [{ role: 'user', content: text }];
  });
  const instructions = said.filter(({ role }) => role === 'system' || role === 'developer');
  return { history, input: last.content, instructions: instructions.map(({ content: text }) => text) };
}

export function saidInChat(messages: readonly ChatMessage[]): readonly Said[] {
  return messages.flatMap((message): Said[] => {
    switch (message.role) {
      case 'system':
      case 'developer':
      case 'user':
      case 'assistant':
        return [{ role: message.role, content: textOf(message.content ?? '') }];
      case 'tool':
      case 'function':
        return [];
      default:
        return assertNever(message);
    }
  });
}

export function saidInInput(input: string | readonly InputItem[]): readonly Said[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  return input.flatMap((item) =>
    'role' in item ? [{ role: item.role as Said['role'], content: textOf(item.content as Content) }] : [],
  );
}

function textOf(given: Content): string {
  if (typeof given === 'string') return given;
  return given.map((part) => ('text' in part ? String(part.text) : '')).join('\n');
}
