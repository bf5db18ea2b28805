import { problemsOf } from '../../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import type { ProviderLimits } from '../../../shared/contract/limits.ts';
import { sensitivity, type Sensitivity } from '../../../shared/contract/message.ts';
import { baseUrlProblem } from '../base-url.ts';
import { createOpenAiChatProvider } from '../openai/chat.ts';
import { createOpenAiResponsesProvider } from '../openai/responses.ts';
import { type LlmProvider, wrapProvider } from '../provider.ts';
import { providerLimits } from './providers-file.ts';
import { createTransport } from '../openai/transport.ts';

export interface OpenAiCompatibleOptions {
  /** With its version path, for instance `https://api.openai.com/v1`. */
  readonly baseUrl: string;
  /** Whatever model a run asks for, this one is called. */
  readonly model: string;
  /** A function is asked at every attempt. Servers without keys take any text. */
  readonly apiKey: string | (() => Promise<string> | string);
  /** Name in attempts, errors and prices. Default `openai-compatible`. */
  readonly id?: string;
  /** Chat completions (default), or Responses. */
  readonly api?: 'chat' | 'responses';
  readonly organization?: string;
  /** Longest wait for the first byte of an answer, in milliseconds. Default 120,000. */
  readonly startTimeoutMs?: number;
  /** Longest silence within an answer, in milliseconds. Default 45,000. */
  readonly idleTimeoutMs?: number;
  /** What the server may see. Default: by the base URL; a public one gets public texts only. */
  readonly acceptsSensitivity?: readonly Sensitivity[];
  readonly limits?: ProviderLimits;
  /** Hosts that the base URL may name although they are link-local. */
  readonly allowedHosts?: readonly string[];
}

const isText = (value: unknown) => typeof value === 'string' && value !== '';

const settings = z.strictObject({
  baseUrl: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }),
  model: z.string('must be given').min(1, 'must be given'),
  apiKey: z.custom((value) => typeof value === 'function' || isText(value), 'must be a text or a function'),
  id: z.string().min(1).optional(),
  api: z.enum(['chat', 'responses']).default('chat'),
  organization: z.string().min(1).optional(),
  startTimeoutMs: z.int().min(1).default(120_000),
  idleTimeoutMs: z.int().min(1).default(45_000),
  acceptsSensitivity: z.array(sensitivity).optional(),
  limits: providerLimits.optional(),
  allowedHosts: z.array(z.string()).default([]),
});

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
  const { baseUrl, model, id = 'openai-compatible', api, organization, startTimeoutMs, idleTimeoutMs } = parsed.data;
  const { apiKey, limits } = options;
  const create = api === 'responses' ? createOpenAiResponsesProvider : createOpenAiChatProvider;
  const provider = create({
    id,
    baseUrl,
    apiKey,
    organization,
    startTimeoutMs,
    idleTimeoutMs,
    acceptsSensitivity: parsed.data.acceptsSensitivity,
    limitsOf: limits && (() => limits),
    dispatcher: createTransport(rule),
  });
  return wrapProvider(provider, (request, onPart, signal) => provider.generate({ ...request, model }, onPart, signal));
}
