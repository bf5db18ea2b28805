import { z } from 'zod';
import { assertNever, RunError } from '../../base/errors.ts';
import {
  handoffFilterDescriptor,
  type HandoffFilterDescriptor,
  type HandoffFilterStep,
  type SensitivityRule,
} from './handoff.ts';
import {
  message,
  sensitivity,
  toolCallsOf,
  type AssistantMessage,
  type Message,
  type Sensitivity,
  type ToolMessage,
  withoutReasoning,
  textOf,
  userWords,
} from '../message.ts';
import { threadMessage } from '../thread/thread.ts';
import { isEnveloped } from '../thread/summary-message.ts';
import { clip } from '../../base/text.ts';

/**
 * Shapes the messages that cross from one agent to another. `apply` is pure: the same messages give the same ones, and
 * what it answers always pairs, whatever was cut. The descriptor says as JSON what it does, see {@link filterFrom}.
 */
export interface HandoffFilter {
  readonly descriptor: HandoffFilterDescriptor;
  apply(messages: readonly Message[]): readonly Message[];
}

/** What crosses, by how far it may travel. A message without a label is public; only results of tools and summaries have one. */
export type SensitivityChoice = WithoutKind<SensitivityRule>;
type WithoutKind<Rule> = Rule extends unknown ? Omit<Rule, 'kind'> : never;

/** The filters that ship. Bad arguments throw `validation`, unless a filter says otherwise. */
export const filters = Object.freeze({
  /** The last `n` messages, and all system messages. Throws a RangeError unless `n` is a whole number from 1. */
  lastN(n: number): HandoffFilter {
    if (!Number.isSafeInteger(n) || n < 1) throw new RangeError(`lastN takes a whole number from 1, not ${n}`);
    return filterFrom({ kind: 'last-n', n });
  },
  /** The user's last message, alone. */
  lastUser: (): HandoffFilter => filterFrom({ kind: 'last-user' }),
  /** Everything. */
  full: (): HandoffFilter => filterFrom({ kind: 'full' }),
  /**
   * One user message with an extract of the conversation, at most `summaryLength` UTF-16 units (200 to 65,536, default 2,000),
   * after the system messages. No model writes it. Results of tools are not in it.
   */
  summary: ({ summaryLength = 2_000 }: { readonly summaryLength?: number } = {}): HandoffFilter =>
    filterFrom({ kind: 'summary', summaryLength }),
  /**
   * Decides by sensitivity. `keep`: only these; `drop`: all but these; `maxTier`: at most this (`public`, `internal`,
   * `secret`). `require` lets nothing be cut: where a message has another one, `apply` throws `guardrail_blocked`.
   */
  bySensitivity: (choice: SensitivityChoice): HandoffFilter => filterFrom({ ...choice, kind: 'sensitivity-filter' }),
  /** Without reasoning. */
  stripReasoning: (): HandoffFilter => filterFrom({ kind: 'strip-reasoning' }),
  /** Without results of tools that are not public, and without their calls. */
  stripSensitiveOutputs: (): HandoffFilter => filterFrom({ kind: 'strip-sensitive-outputs' }),
  /** Without tool calls and their results. */
  stripToolCalls: (): HandoffFilter => filterFrom({ kind: 'strip-tool-calls' }),
  /** One after the other. */
  compose(...steps: readonly HandoffFilter[]): HandoffFilter {
    return filter(checked({ kind: 'compose', steps: steps.flatMap(stepsOf) }), (messages) =>
      steps.reduce((before, step) => step.apply(before), messages),
    );
  },
  /**
   * A function of your own, which gets a copy. Recorded as `custom`, which cannot be replayed. `apply` throws
   * `validation` where it answers anything but messages.
   */
  custom(choose: (messages: readonly Message[]) => readonly Message[]): HandoffFilter {
    return filter({ kind: 'custom' }, (messages) => {
      const chosen = z.array(message).safeParse(choose(structuredClone([...messages])));
      if (!chosen.success) throw new RunError('validation', 'a custom handoff filter did not answer messages');
      return chosen.data;
    });
  },
});

/** What crosses by default. */
export const defaultHandoffFilter: HandoffFilter = filters.compose(filters.lastN(10), filters.stripSensitiveOutputs());

/** The filter as it applies between two agents: reasoning never passes. */
export function boundary(inner: HandoffFilter = defaultHandoffFilter): HandoffFilter {
  return filters.compose(inner, filters.stripReasoning());
}

/**
 * What crosses of a conversation. Thoughts stay behind before the filter counts anything, so that a thread, which never has
 * them, gives the same bytes again.
 */
export function crossing(filter: HandoffFilter, messages: readonly Message[]): readonly Message[] {
  return filter.apply(messages.flatMap<Message>((one) => (one.role === 'system' ? one : (threadMessage(one) ?? []))));
}

/**
 * The filter that a descriptor describes, for instance one that was read from JSON: on the same messages it answers the
 * same bytes. Throws `validation` for anything else, and for a `custom` filter, whose function is not in its descriptor.
 */
export function filterFrom(descriptor: unknown): HandoffFilter {
  const known = checked(descriptor);
  if (known.kind === 'compose') return filters.compose(...known.steps.map(filterFrom));
  if (known.kind === 'custom') throw new RunError('validation', 'a custom handoff filter cannot be replayed');
  return filter(known, (messages) => choose(known, messages));
}

function checked(descriptor: unknown): HandoffFilterDescriptor {
  const known = handoffFilterDescriptor.safeParse(descriptor);
  if (known.success) return known.data;
  throw new RunError('validation', 'this describes no handoff filter', { cause: known.error });
}

function filter(descriptor: HandoffFilterDescriptor, apply: HandoffFilter['apply']): HandoffFilter {
  return Object.freeze({
    descriptor,
    apply: (messages: readonly Message[]) => withoutDangling(apply(withoutDangling(messages))),
  });
}

function stepsOf({ descriptor }: HandoffFilter): readonly HandoffFilterStep[] {
  return descriptor.kind === 'compose' ? descriptor.steps : [descriptor];
}

type Replayable = Exclude<HandoffFilterStep, { readonly kind: 'custom' }>;

function choose(step: Replayable, messages: readonly Message[]): readonly Message[] {
  switch (step.kind) {
    case 'last-n': {
      const from = messages.length - step.n;
      return messages.filter(({ role }, at) => role === 'system' || at >= from);
    }
    case 'last-user':
      return messages.filter(({ role }) => role === 'user').slice(-1);
    case 'full':
      return messages;
    case 'summary': {
      const content = extractOf(messages, step.summaryLength);
      const authored = messages.filter(({ role }) => role === 'system');
      return content === undefined ? authored : [...authored, { role: 'user', content }];
    }
    case 'sensitivity-filter':
      return withinRule(step, messages);
    case 'strip-reasoning':
      return withoutReasoning(messages, undefined);
    case 'strip-sensitive-outputs':
      return messages.filter((one) => tierOf(one) === 'public');
    case 'strip-tool-calls':
      return messages.filter(({ role }) => role !== 'tool');
    default:
      return assertNever(step);
  }
}

function withinRule(rule: SensitivityRule, messages: readonly Message[]): readonly Message[] {
  const crosses = (one: Message) => allows(rule, tierOf(one));
  if ('require' in rule && !messages.every(crosses))
    throw new RunError('guardrail_blocked', `only ${rule.require.join(' and ')} data may be handed over`);
  return messages.flatMap((one) => (crosses(one) ? [one] : callsOnly(one)));
}

/** A call goes where its result goes, so it is not judged by itself. */
function callsOnly(one: Message): readonly Message[] {
  if (one.role !== 'assistant') return [];
  const calls = toolCallsOf(one);
  return calls.length > 0 ? [{ ...one, parts: calls }] : [];
}

function allows(rule: SensitivityRule, tier: Sensitivity): boolean {
  if ('keep' in rule) return rule.keep.includes(tier);
  if ('drop' in rule) return !rule.drop.includes(tier);
  if ('require' in rule) return rule.require.includes(tier);
  return sensitivity.options.indexOf(tier) <= sensitivity.options.indexOf(rule.maxTier);
}

function tierOf(one: Message): Sensitivity {
  return one.role === 'tool' || one.role === 'user' ? (one.sensitivity ?? 'public') : 'public';
}

/**
 * The messages such that every tool message answers a call of the assistant message before it and every call has exactly
 * one answer, next to it: calls without an answer and answers without a call are left out, and so are assistant messages
 * that said nothing beside. For messages that another agent is about to read; a turn that goes on answers its open calls
 * instead, see `pairMessages`. The rest stays as it is, in its order.
 */
function withoutDangling(messages: readonly Message[]): readonly Message[] {
  const kept: Message[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as Message;
    if (message.role === 'tool') continue;
    if (message.role === 'assistant') kept.push(...paired(message, answersAfter(messages, at)));
    else kept.push(message);
  }
  return kept;
}

function answersAfter(messages: readonly Message[], at: number): readonly ToolMessage[] {
  const answers: ToolMessage[] = [];
  for (let next = at + 1; ; next++) {
    const message = messages[next];
    if (message?.role !== 'tool') return answers;
    answers.push(message);
  }
}

/** Models repeat ids, also within one step: the first call of an id takes the first answer to it, and later ones are not distinguished. */
function paired(said: AssistantMessage, answers: readonly ToolMessage[]): readonly Message[] {
  const taken = new Map<string, ToolMessage>();
  const parts = said.parts.filter((part) => {
    if (part.type !== 'tool_call') return true;
    const answer = answers.find(({ toolCallId }) => toolCallId === part.id);
    if (!answer || taken.has(part.id)) return false;
    taken.set(part.id, answer);
    return true;
  });
  const whole = parts.length === said.parts.length ? said : { ...said, parts };
  const saysNothing = whole !== said && parts.every((part) => part.type === 'reasoning');
  return saysNothing ? [] : [whole, ...answers.filter((one) => taken.get(one.toolCallId) === one)];
}

const heading = 'An extract of the conversation so far:';
const gap = '…';
/** A line of a long conversation gets this share of the room, so that no single message fills it. */
const shareOfLine = 4;

/**
 * The messages, in at most `maxChars` UTF-16 units: one line per message, the first line and as many of the last ones as
 * have room. Made of the texts of users and agents and of the names of called tools; results, summaries of them and reasoning are left out,
 * because their labels would be lost in a text. Undefined where there are no such messages. The same messages give the same text.
 */
function extractOf(messages: readonly Message[], maxChars: number): string | undefined {
  const lines = messages.flatMap(lineOf);
  if (lines.length === 0) return undefined;
  const whole = [heading, ...lines].join('\n');
  if (whole.length <= maxChars) return whole;
  const room = maxChars - heading.length - gap.length - 2;
  const widest = Math.max(1, Math.floor(room / shareOfLine));
  const short = lines.map((line) => shortened(line, widest));
  const [first = '', ...rest] = short;
  const last = lastLines(rest, room - first.length - 1);
  const isComplete = last.length === rest.length;
  return [heading, first, ...(isComplete ? [] : [gap]), ...last].join('\n');
}

function lineOf(message: Message): string[] {
  switch (message.role) {
    case 'user':
      if (message.sensitivity || isEnveloped(message.content)) return [];
      return saying('User', userWords(message));
    case 'assistant': {
      const called = toolCallsOf(message).map(({ name }) => name);
      return [
        ...saying('Agent', textOf(message)),
        ...(called.length > 0 ? saying('Agent called', called.join(', ')) : []),
      ];
    }
    default:
      return [];
  }
}

function saying(who: string, text: string): string[] {
  const line = text.replace(/\s+/g, ' ').trim();
  return line === '' ? [] : [`${who}: ${line}`];
}

function shortened(line: string, width: number): string {
  return line.length <= width ? line : `${clip(line, width - gap.length)}${gap}`;
}

function lastLines(lines: readonly string[], room: number): readonly string[] {
  let left = room;
  let from = lines.length;
  while (from > 0) {
    left -= (lines[from - 1] as string).length + 1;
    if (left < 0) break;
    from--;
  }
  return lines.slice(from);
}
