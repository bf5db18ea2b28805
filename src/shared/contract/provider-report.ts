import { z } from 'zod';

const at = z.string().describe('ISO time.');

/** What a look at the list of models of a provider found. */
const endpoint = z.object({
  state: z.enum(['answers', 'refuses_key', 'fails', 'unreachable']),
  status: z.int().optional().describe('Of the HTTP answer.'),
  at,
});

/** The last failed call. A text is there only where it cannot quote what a user wrote. */
const callError = z.object({
  kind: z.string(),
  status: z.int().optional(),
  message: z.string().optional(),
  model: z.string(),
  at,
});

/** A model provider as a worker has it: no key, no text of a user. */
export const providerReport = z.object({
  id: z.string(),
  kind: z
    .enum(['openai', 'openai-responses', 'scripted', 'builtin', 'custom'])
    .describe('`scripted`: `MILLRACE_SCRIPT`; `builtin`: nothing is configured; `custom`: code of the worker.'),
  host: z.string().optional().describe('Of its base URL.'),
  hasKey: z.boolean(),
  requestsPerMinute: z.int().optional().describe('What it takes in all, where the providers file says so.'),
  tokensPerMinute: z.int().optional().describe('What it takes in all, where the providers file says so.'),
  endpoint: endpoint.optional().describe('Absent: not asked yet, or there is nothing to ask.'),
  lastError: callError.optional(),
  lastAnswerAt: at.optional(),
});
export type ProviderReport = Readonly<z.infer<typeof providerReport>>;

/** Is this provider out of order, by the last that is known of it? */
export function providerTrouble({ endpoint: seen, lastError, lastAnswerAt = '' }: ProviderReport): boolean {
  if (seen && seen.state !== 'answers' && seen.at > lastAnswerAt) return true;
  return lastError !== undefined && lastError.at > lastAnswerAt && !ofRequest.has(lastError.kind);
}

/** Errors that one request makes, and not its provider. */
const ofRequest: ReadonlySet<string> = new Set([
  'bad_request',
  'content_filter',
  'context_length',
  'cancelled',
  'unknown',
]);

/** Says nothing of what a user or a model wrote. */
export function isOfProvider(kind: string): boolean {
  return !ofRequest.has(kind);
}

/** A report for readers that are no operators: without what a server wrote into an error. */
export function withoutWords({ lastError, ...report }: ProviderReport): z.output<typeof providerReport> {
  if (!lastError) return report;
  const { message: _, ...error } = lastError;
  return { ...report, lastError: error };
}
