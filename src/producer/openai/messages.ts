import { z } from 'zod';
import { fileId } from '../../shared/contract/files.ts';
import { hasFiles, joinedParts, type InputPart } from '../../shared/contract/input-parts.ts';
import type { HistoryMessage } from '../../shared/contract/request/history.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import { refused } from './fields.ts';

/** Of a `data:` URL: more than the largest body. */
const maxUrlChars = 64 * 1024 * 1024;

const ownTools = 'an agent has its own tools; leave calls and results of tools out, it looks up again what it needs';

const textPart = z.strictObject({
  type: z.enum(['text', 'input_text', 'output_text']),
  text: z.string(),
  annotations: refused('an agent cites nothing of what was said before'),
  logprobs: refused('the request has no probabilities'),
});

const detail = z.enum(['auto', 'low', 'high']).nullish();
const url = z.string().max(maxUrlChars);
const name = z.string().min(1).max(200).nullish();
const dataUrl = url.regex(/^data:/i, 'must be data:<media type>;base64,…');

/** Each is an image or a document: by its URL, which may be `data:…`, or as a file that was uploaded. */
const filePart = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('image_url'), image_url: z.strictObject({ url, detail }) }),
  z.strictObject({ type: z.literal('input_image'), image_url: url.nullish(), file_id: fileId.nullish(), detail }),
  z.strictObject({
    type: z.literal('file'),
    file: z.strictObject({ file_id: fileId.nullish(), file_data: dataUrl.nullish(), filename: name }),
  }),
  z.strictObject({
    type: z.literal('input_file'),
    file_id: fileId.nullish(),
    file_data: dataUrl.nullish(),
    file_url: url.nullish(),
    filename: name,
  }),
]);
type FilePart = z.infer<typeof filePart>;

const otherPart = z
  .looseObject({ type: z.enum(['input_audio', 'refusal']) })
  .refine(() => false, 'is refused: an agent reads text, images and documents');
const content = z.union([
  z.string(),
  z.array(z.discriminatedUnion('type', [textPart, ...filePart.options, otherPart])),
]);
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

export interface Said {
  readonly role: 'system' | 'developer' | 'user' | 'assistant';
  readonly parts: readonly InputPart[];
}

export function textIn({ parts }: Pick<Said, 'parts'>): string {
  return joinedParts(parts).text;
}

/** What a request says, in the parts that a run has for it. */
export interface Conversation {
  readonly history: readonly HistoryMessage[];
  readonly input: string | readonly InputPart[];
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
  const before = spoken.slice(0, -1);
  const history = before.flatMap((message): HistoryMessage[] => {
    const content = textIn(message);
    if (content === '') return [];
    return message.role === 'assistant' ? [{ role: 'assistant', content }] : [{ role: 'user', content }];
  });
  const instructions = said.filter(({ role }) => role === 'system' || role === 'developer').map(textIn);
  return { history, input: inputOf(last.parts, before), instructions };
}

/** What was said before has text only: its files go before the input. */
function inputOf(parts: readonly InputPart[], before: readonly Said[]): Conversation['input'] {
  const earlier = before.flatMap((message) => message.parts.filter(({ type }) => type !== 'text'));
  if (earlier.length > 0) return [{ type: 'text', text: 'From earlier messages:' }, ...earlier, ...parts];
  return hasFiles(parts) ? parts : joinedParts(parts).text;
}

export function saidInChat(messages: readonly ChatMessage[]): readonly Said[] {
  return messages.flatMap((message): Said[] => {
    switch (message.role) {
      case 'system':
      case 'developer':
      case 'user':
      case 'assistant':
        return [{ role: message.role, parts: partsOf(message.content ?? '') }];
      case 'tool':
      case 'function':
        return [];
      default:
        return assertNever(message);
    }
  });
}

export function saidInInput(input: string | readonly InputItem[]): readonly Said[] {
  if (typeof input === 'string') return [{ role: 'user', parts: partsOf(input) }];
  return input.flatMap((item) => {
    const message = messageItem.safeParse(item).data;
    return message ? [{ role: message.role, parts: partsOf(message.content) }] : [];
  });
}

function partsOf(given: Content): readonly InputPart[] {
  if (typeof given === 'string') return [{ type: 'text', text: given }];
  return given.flatMap((part): InputPart[] => {
    switch (part.type) {
      case 'text':
      case 'input_text':
      case 'output_text':
        return [{ type: 'text', text: part.text }];
      case 'image_url':
      case 'input_image':
      case 'file':
      case 'input_file':
        return [fileOf(part)];
      case 'input_audio':
      case 'refusal':
        return [];
      default:
        return assertNever(part);
    }
  });
}

function fileOf(part: FilePart): InputPart {
  switch (part.type) {
    case 'image_url': {
      const { url: link, detail: wanted } = part.image_url;
      return { type: 'image', url: link, ...(wanted && { detail: wanted }) };
    }
    case 'input_image': {
      const { file_id: id, image_url: link, detail: wanted } = part;
      return { type: 'image', ...sourceOf(id, link), ...(wanted && { detail: wanted }) };
    }
    case 'file': {
      const { file_id: id, file_data: data, filename } = part.file;
      return { type: 'file', ...sourceOf(id, data), ...(filename && { name: filename }) };
    }
    case 'input_file': {
      const { file_id: id, file_data: data, file_url: link, filename } = part;
      return { type: 'file', ...sourceOf(id, data ?? link), ...(filename && { name: filename }) };
    }
    default:
      return assertNever(part);
  }
}

/** Where the bytes are. A part without any is refused where its run is accepted, which names the place. */
function sourceOf(id: string | null | undefined, link: string | null | undefined) {
  return id ? { fileId: id } : { url: link ?? '' };
}
