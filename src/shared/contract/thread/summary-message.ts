import type { JournalEntryOf } from '../journal/journal.ts';
import { unlabelled } from '../flow-label.ts';
import type { FlowLabel, Message, Sensitivity } from '../message.ts';
import { fileLabel } from '../input-parts.ts';
import { keepEnds } from '../../base/text.ts';

/** The first line of every summary: by it a summary is known again on whatever worker goes on with the conversation. */
const firstLine = '[Summary of the earlier part of this conversation. What follows it is word by word.]';
const envelope = '<<<UNTRUSTED_CONTENT ';
const maxRequestBytes = 8_192;
const filesLine = 'Files that were shown before, and are not any more: ';
const filesLinePattern = new RegExp(`^${filesLine}(.+)$`, 'm');
const maxFilesNamed = 50;

type UserMessage = Extract<Message, { role: 'user' }>;

/** How far a summary may travel, and what of it others brought. */
export interface SummaryLabels {
  readonly sensitivity?: Sensitivity | undefined;
  readonly flow?: FlowLabel | undefined;
}

/** In the position of a user, never of the system: a model wrote it. */
export function summaryMessage(text: string, { sensitivity, flow }: SummaryLabels = {}): UserMessage {
  const label = labelOfSummary(text, flow);
  return { role: 'user', content: text, ...(sensitivity && { sensitivity }), ...(label && { flow: label }) };
}

/** A summary without a label that marks its text as untrusted is by a worker that knew no labels. */
function labelOfSummary(text: string, flow: FlowLabel | undefined): FlowLabel | undefined {
  return flow ?? (isEnveloped(text) ? unlabelled : undefined);
}

/**
 * The text of a summary message. `request` is what the user asked for and is still being worked on, where that is among
 * the messages that the summary replaces: it is repeated word by word, up to 8 KB. `files` were shown in those messages, and are not
 * any more.
 */
export function summaryText(summary: string, request: string | undefined, files: readonly string[] = []): string {
  const asked = request === undefined ? '' : `\n\nThe user's request:\n${keepEnds(request, maxRequestBytes)}`;
  const left = files.length === 0 ? '' : `\n\n${filesLine}${files.slice(-maxFilesNamed).join('; ')}`;
  return `${firstLine}\n${summary}${left}${asked}`;
}

/** Files that the summary stands for, those of an earlier summary first. */
function filesIn(messages: readonly Message[]): string[] {
  return messages.flatMap((message) => {
    if (message.role !== 'user') return [];
    const earlier = isSummary(message) ? filesLinePattern.exec(message.content)?.[1]?.split('; ') : undefined;
    return [...(earlier ?? []), ...(message.files ?? []).map(fileLabel)];
  });
}

/** Is this a summary, made by whatever worker? Only the first message of a conversation can be one. */
export function isSummary(message: Message | undefined): boolean {
  return message?.role === 'user' && message.content.startsWith(`${firstLine}\n`);
}

/** Does the text carry the marker lines of untrusted content? */
export function isEnveloped(text: string): boolean {
  return text.includes(envelope);
}

/** The message that takes the place of the first `replaced` messages of a conversation that began like this. */
export function summaryMessageOf(
  initial: readonly Message[],
  { summary, replaced, ...labels }: Pick<JournalEntryOf<'compacted'>, 'summary' | 'replaced' | 'sensitivity' | 'flow'>,
): ReturnType<typeof summaryMessage> {
  const files = filesIn(initial.slice(0, replaced));
  return summaryMessage(summaryText(summary, requestFor(initial, replaced), files), labels);
}

/** What the messages that stay are an answer to; undefined where they begin with their own question. */
function requestFor(initial: readonly Message[], replaced: number): string | undefined {
  if (replaced < initial.length && initial[replaced]?.role === 'user') return undefined;
  const asked = initial.slice(0, replaced).filter((message) => message.role === 'user');
  return asked.findLast((message) => !isSummary(message))?.content;
}
