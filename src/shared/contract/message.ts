import { z } from 'zod';
import { lessTrusted, trustClass } from './agent/trust.ts';
import { commentaryMode, shownCommentary } from './commentary.ts';
import { fileLabel, inputFiles, movedFiles } from './input-parts.ts';

/** Reasoning text with the provider's opaque proof. `meta` goes back to the same provider and never into an event. */
export const reasoningPart = z.object({
  type: z.literal('reasoning'),
  text: z.string(),
  provider: z.string(),
  meta: z.unknown().optional(),
});
export const textPart = z.object({ type: z.literal('text'), text: z.string() });

/** `args` is the model's own text: it is parsed where the call is dispatched, not before. */
export const toolCallPart = z.object({
  type: z.literal('tool_call'),
  id: z.string(),
  name: z.string(),
  args: z.string(),
});

export const assistantPart = z.discriminatedUnion('type', [reasoningPart, textPart, toolCallPart]);

/** How far a text may travel: to anybody, to providers trusted with internal data, or to those that declare `secret`. */
export const sensitivity = z.enum(['public', 'internal', 'secret']);
export type Sensitivity = z.infer<typeof sensitivity>;

/** The one of two that may travel less far. */
export function lessPublic(a: Sensitivity, b: Sensitivity | undefined): Sensitivity {
  const order = sensitivity.options;
  return b === undefined || order.indexOf(a) >= order.indexOf(b) ? a : b;
}

/**
 * Where an untrusted text came from: a tool's name, `mcp:<server>/<tool>`, `agent:<id>` for what another agent answered,
 * `file:<name>` for a file of an input.
 */
export const flowSource = z.object({ name: z.string().max(256), trust: trustClass });
export type FlowSource = Readonly<z.infer<typeof flowSource>>;

export const maxFlowSources = 16;
/** The most characters of untrusted parts that a label keeps. With more the whole text counts as untrusted. */
export const maxLabelChars = 65_536;

/**
 * What a text carries that a model wrote after it had read untrusted text, or secrets. It stands beside the text wherever the
 * text goes without the conversation that it was made from: in a summary, at a child, in a parent, in a thread.
 */
export const flowLabel = z.object({
  /** The untrusted texts that were read, each source once. Empty: none. */
  sources: z.array(flowSource).max(maxFlowSources),
  /** The most secret of what was read. Absent: public. */
  sensitivity: sensitivity.optional(),
  /** The pieces of the text that those sources brought. Absent: all of it counts as such. */
  parts: z.array(z.string()).optional(),
});
export type FlowLabel = Readonly<z.infer<typeof flowLabel>>;

/** Where a text comes from and how far it may travel, without what of it others brought. */
export type Origins = Omit<FlowLabel, 'parts'>;

/** All sources, each once, and the most secret of what they brought. Undefined: nothing untrusted, and nothing but public. */
export function unionOf(labels: Iterable<Partial<Origins> | undefined>): Origins | undefined {
  const all = [...labels];
  const sources = new Map(
    all.flatMap((label) => label?.sources ?? []).map((source) => [`${source.trust} ${source.name}`, source]),
  );
  const tier = strictestOf(all.map((label) => label?.sensitivity));
  if (sources.size === 0 && !tier) return undefined;
  return { sources: withinRoom([...sources.values()]), ...(tier && { sensitivity: tier }) };
}

/** No source is left out in silence: the last place stands for all that have none of their own. */
function withinRoom(sources: readonly FlowSource[]): FlowSource[] {
  if (sources.length <= maxFlowSources) return [...sources];
  const rest = sources.slice(maxFlowSources - 1).map(({ trust }) => trust);
  const trust = rest.reduce((worst, next) => lessTrusted(worst, next));
  return [...sources.slice(0, maxFlowSources - 1), { name: 'other sources', trust }];
}

/** Undefined: all of them are public. */
export function strictestOf(tiers: readonly (Sensitivity | undefined)[]): Sensitivity | undefined {
  const strictest = sensitivity.options.findLast((tier) => tiers.includes(tier));
  return strictest === 'public' ? undefined : strictest;
}

export const systemMessage = z.object({ role: z.literal('system'), content: z.string() });
export const userMessage = z.object({
  role: z.literal('user'),
  content: z.string(),
  /** That were given with it, each with its place in `content`. */
  files: inputFiles.optional(),
  /** Of a summary: how far what it was made from may travel. Absent: the user's own words, which go to every provider. */
  sensitivity: sensitivity.optional(),
  /** Of a text that a model wrote. Absent: the user's own words. */
  flow: flowLabel.optional(),
});
export const assistantMessage = z.object({
  role: z.literal('assistant'),
  parts: z.array(assistantPart),
  /** What becomes of its text where it leaves the run, as that stands beside calls. Absent: nothing. */
  commentary: commentaryMode.exclude(['pass']).optional(),
  /** Of an answer that came without the conversation that it was made from. Absent: that conversation, or its caller, vouches for it. */
  flow: flowLabel.optional(),
});
export const toolMessage = z.object({
  role: z.literal('tool'),
  toolCallId: z.string(),
  toolName: z.string(),
  content: z.string(),
  isError: z.boolean().optional(),
  /** Absent: public. A provider that does not accept it gets a notice in place of the content. */
  sensitivity: sensitivity.optional(),
  /** Absent: the result of a tool of the operator's own. */
  trust: z.string().optional(),
  /** What looked like instructions was taken out of it, or there was none. */
  sanitized: z.literal(true).optional(),
  /** Of what other tools or agents brought. Absent: all of it is this tool's, trusted as `trust` says. */
  flow: flowLabel.optional(),
});

/** One entry of a conversation, independent of any provider's wire format. */
export const message = z.discriminatedUnion('role', [systemMessage, userMessage, assistantMessage, toolMessage]);

export type ToolCallPart = z.infer<typeof toolCallPart>;
export type AssistantPart = z.infer<typeof assistantPart>;
export type AssistantMessage = z.infer<typeof assistantMessage>;
export type UserMessage = z.infer<typeof userMessage>;
export type ToolMessage = z.infer<typeof toolMessage>;
export type Message = z.infer<typeof message>;

/** What a user has said, with the names of the files that came with it. */
export function userWords({ content, files = [] }: UserMessage): string {
  return [content, ...files.map((file) => `[file ${fileLabel(file)}]`)].filter((text) => text !== '').join('\n');
}

/** The visible text of an assistant message. */
export function textOf(m: AssistantMessage): string {
  return m.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** The message with its text as it leaves the run: with, without or between the marks of commentary. Its calls stay. */
export function withShownCommentary(message: AssistantMessage): AssistantMessage {
  const { commentary, parts, flow } = message;
  if (!commentary) return message;
  const shown = shownCommentary(textOf(message), commentary);
  const others = parts.filter((part) => part.type !== 'text');
  return {
    role: 'assistant',
    ...(flow && { flow }),
    parts: shown === '' ? others : [{ type: 'text', text: shown }, ...others],
  };
}

/** The tool calls of an assistant message, in the order the model made them. */
export function toolCallsOf(m: AssistantMessage): ToolCallPart[] {
  return m.parts.filter((part) => part.type === 'tool_call');
}

/**
 * The messages without reasoning, except that of provider `keep`. Assistant messages that held nothing else are
 * dropped and neighbours of one role that meet because of it become one message. The same array when nothing changes.
 */
export function withoutReasoning(messages: readonly Message[], keep: string | undefined): readonly Message[] {
  const isForeign = (part: AssistantPart) => part.type === 'reasoning' && part.provider !== keep;
  if (!messages.some((message) => message.role === 'assistant' && message.parts.some(isForeign))) return messages;
  const kept: Message[] = [];
  let dropped = false;
  for (const message of messages) {
    const next =
      message.role === 'assistant' ? { ...message, parts: message.parts.filter((part) => !isForeign(part)) } : message;
    if (next.role === 'assistant' && next.parts.length === 0) {
      dropped = true;
      continue;
    }
    const merged = dropped ? merge(kept.at(-1), next) : undefined;
    dropped = false;
    if (merged) kept[kept.length - 1] = merged;
    else kept.push(next);
  }
  return kept;
}

/** Two messages as one, or undefined when they cannot be: every tool message answers a call of its own. */
function merge(first: Message | undefined, second: Message): Message | undefined {
  if (first?.role === 'assistant' && second.role === 'assistant') {
    const origins = unionOf([first.flow, second.flow]);
    return { role: 'assistant', parts: [...first.parts, ...second.parts], ...(origins && { flow: origins }) };
  }
  if (first?.role === 'user' && second.role === 'user') {
    const before = `${first.content}\n\n`;
    const files = [...(first.files ?? []), ...movedFiles(second.files ?? [], before.length)];
    const content = before + second.content;
    return { role: 'user', content, ...(files.length > 0 && { files }), ...labelsOfBoth(first, second) };
  }
  return undefined;
}

/** What one of them brought stays marked as that in the text of both. */
function labelsOfBoth(first: UserMessage, second: UserMessage): Pick<UserMessage, 'sensitivity' | 'flow'> {
  const labelled = [first, second].flatMap(({ content, flow }) => (flow ? [{ content, flow }] : []));
  const parts = labelled.flatMap(({ content, flow }) => flow.parts ?? [content]);
  const tier = strictestOf([first.sensitivity, second.sensitivity]);
  const origins = unionOf(labelled.map(({ flow }) => flow));
  return { ...(tier && { sensitivity: tier }), ...(origins && { flow: { ...origins, parts } }) };
}
