import { defined } from '../../../shared/base/collections.ts';
import { problemsOf } from '../../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { sensitivity } from '../../../shared/contract/message.ts';
import { baseUrlProblem } from '../base-url.ts';
import type { OpenAiOptions } from '../openai/call.ts';
import { createOpenAiChatProvider } from '../openai/chat.ts';
import { createOpenAiResponsesProvider } from '../openai/responses.ts';
import { inputKind, type LlmProvider, wrapProvider } from '../provider.ts';
import { providerLimits } from './providers-file.ts';
import { createTransport } from '../openai/transport.ts';

const isText = (value: unknown) => typeof value === 'string' && value !== '';

const settings = z.strictObject({
  /** With its version path, for instance `https://api.openai.com/v1`. */
  baseUrl: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }),
  /** Whatever model a run asks for, this one is called. */
  model: z.string('must be given').min(1, 'must be given'),
  /** A function is asked at every attempt. Servers without keys take any text. */
  apiKey: z.custom<OpenAiOptions['apiKey']>(
    (value) => typeof value === 'function' || isText(value),
    'must be a text or a function',
  ),
  /** Name in attempts, errors and prices. Default `openai-compatible`. */
  id: z.string().min(1).default('openai-compatible'),
  /** Chat completions (default), or Responses. */
  api: z.enum(['chat', 'responses']).default('chat'),
  organization: z.string().min(1).optional(),
  /** Longest wait for the first byte of an answer, in milliseconds. Default 120,000. */
  startTimeoutMs: z.int().min(1).default(120_000),
  /** Longest silence within an answer, in milliseconds. Default 45,000. */
  idleTimeoutMs: z.int().min(1).default(45_000),
  /** What the server may see. Default: by the base URL; a public one gets public texts only. */
  acceptsSensitivity: z.array(sensitivity).readonly().optional(),
  limits: providerLimits.optional(),
  /** What the model reads. Default: text, images and PDFs; a server that refuses one says so itself. */
  input: z.array(inputKind).min(1).readonly().optional(),
  /** Hosts that the base URL may name although they are link-local. */
  allowedHosts: z.array(z.string()).readonly().default([]),
});
export type OpenAiCompatibleOptions = Readonly<z.input<typeof settings>>;

/**
 * A provider for any server that speaks OpenAI's wire, for `createAgent` and `startWorker`. Throws `invalid_config`
 * listing every field that is missing or wrong.
 *
 * @example
 * const provider = createOpenAICompatibleBackend({
 *   baseUrl: 'http://127.0.0.1:11434/v1',
 *   model: 'qwen3',
 *   apiKey: 'none',
 * });
 */
export function createOpenAICompatibleBackend(options: OpenAiCompatibleOptions): LlmProvider {
  const parsed = settings.safeParse(options);
  const problems = problemsOf(parsed.error, 'options');
  const rule = { allowedHosts: parsed.data?.allowedHosts ?? [], production: false };
  const refused = parsed.success ? baseUrlProblem(parsed.data.baseUrl, rule) : undefined;
  if (refused !== undefined) problems.push(`baseUrl: ${refused}`);
  if (!parsed.success || problems.length > 0) {
    throw new RunError('invalid_config', `the backend cannot be made:\n  ${problems.join('\n  ')}`, {
      details: problems,
    });
  }
  const { model, api, limits: given, input, allowedHosts: _, ...openAi } = parsed.data;
  const limits = given && defined(given);
  const create = api === 'responses' ? createOpenAiResponsesProvider : createOpenAiChatProvider;
  const provider = create({
    ...openAi,
    limitsOf: limits && (() => limits),
    inputOf: () => input,
    dispatcher: createTransport(rule),
  });
  return wrapProvider(provider, (request, onPart, signal) => provider.generate({ ...request, model }, onPart, signal));
}
