import type { Usage } from '../../shared/contract/money.ts';
import { jsonText } from '../../shared/base/json.ts';
import { toolCallsOf, type Message } from '../../shared/contract/message.ts';
import { fileTokensOf } from './input-files.ts';
import type { LlmRequest } from './provider.ts';

/** Microcents per million tokens, a whole number; with tiers, where a long prompt makes the whole call dearer. */
export type Rate = number | TieredRate;

interface TieredRate {
  readonly base: number;
  /** In rising order. The last tier whose `above` is less than the prompt's tokens (cached ones included) applies. */
  readonly tiers: readonly { readonly above: number; readonly rate: number }[];
}

const tokenClasses = ['input', 'output', 'cached', 'cacheWrite'] as const;
export type Price = Readonly<Record<(typeof tokenClasses)[number], Rate>>;

/** The price that applies at a time, or undefined when it is not known. Never throws. */
export type PriceLookup = (provider: string, model: string, at: Date) => Price | undefined;

/** Microcents of one call: each class of token is rounded once, so that sums of calls stay exact. */
export function costOf(usage: Usage, price: Price): number {
  const prompt = usage.input + usage.cached + usage.cacheWrite;
  return tokenClasses.reduce((sum, name) => sum + tokensCost(usage[name], rateAt(price[name], prompt)), 0);
}

function rateAt(rate: Rate, promptTokens: number): number {
  if (typeof rate === 'number') return rate;
  return rate.tiers.findLast((tier) => promptTokens > tier.above)?.rate ?? rate.base;
}

/** The product of tokens and rate passes 2^53 for dear models, hence the big integers. */
function tokensCost(tokens: number, ratePerMillion: number): number {
  if (tokens === 0 || ratePerMillion === 0) return 0;
  return Number((BigInt(tokens) * BigInt(ratePerMillion) + 500_000n) / 1_000_000n);
}

/** Output tokens of a call that sets no bound of its own. */
const assumedOutputTokens = 4_096;
/** Fewer than this are no answer: a call is refused rather than cut shorter. */
const leastOutputTokens = 256;

/** English text has about four bytes to a token, and other scripts fewer characters: three errs to the safe side. */
export const bytesPerToken = 3;
const tokensPerMessage = 4;

/** Tokens of the prompt, estimated from its size and rather too many than too few. */
export function promptTokensOf(request: Pick<LlmRequest, 'messages' | 'tools' | 'responseFormat'>): number {
  const { messages, tools, responseFormat } = request;
  let bytes = responseFormat ? Buffer.byteLength(jsonText(responseFormat)) : 0;
  for (const { name, description, parameters } of tools ?? []) {
    bytes += name.length + Buffer.byteLength(description) + Buffer.byteLength(jsonText(parameters));
  }
  let tokens = messages.length * tokensPerMessage;
  for (const message of messages) {
    bytes += bytesOf(message);
    if (message.role === 'user') for (const file of message.files ?? []) tokens += fileTokensOf(file);
  }
  return Math.ceil(bytes / bytesPerToken) + tokens;
}

export function maxOutputTokensOf({ maxOutputTokens = assumedOutputTokens }: LlmRequest): number {
  return maxOutputTokens;
}

/** Of a closing call. */
const closingOutputTokens = 1_024;
/** For the results of the last step, as far as a closing call that is short of money repeats them, and what is said around them. */
const closingRoomTokens = 3_072;
export const closingResultsBytes = 2_048 * bytesPerToken;

/** Microcents for a closing call that may follow this one: its prompt, the answer, results of its calls, and an answer to all of it. */
export function closingCostOf(request: LlmRequest, price: Price): number {
  const most = maxOutputTokensOf(request);
  // An answer of so many tokens is estimated by its bytes later on, which errs to the safe side.
  const input = promptTokensOf(request) + Math.ceil(most * 1.5) + closingRoomTokens;
  const output = Math.min(most, closingOutputTokens);
  return costOf({ input, output, cached: 0, cacheWrite: 0, total: input + output }, price);
}

/** What a call can cost, in microcents: at most, at least what is still worth a call, and how far an amount reaches. */
export interface CallCost {
  readonly most: number;
  readonly least: number;
  /** With an answer of so many tokens. */
  costWith(outputTokens: number): number;
  /** The output tokens that this amount pays for, beside the prompt. */
  outputTokensFor(amount: number): number;
}

export function costOfCall(request: LlmRequest, price: Price): CallCost {
  const input = promptTokensOf(request);
  const maxOutput = maxOutputTokensOf(request);
  const costWith = (output: number) =>
    costOf({ input, output, cached: 0, cacheWrite: 0, total: input + output }, price);
  const prompt = costWith(0);
  const most = costWith(maxOutput);
  return {
    most,
    costWith,
    least: costWith(Math.min(maxOutput, leastOutputTokens)),
    outputTokensFor: (amount) =>
      most === prompt ? maxOutput : Math.floor(((amount - prompt) / (most - prompt)) * maxOutput),
  };
}

function bytesOf(message: Message): number {
  if (message.role !== 'assistant') return Buffer.byteLength(message.content);
  const calls = toolCallsOf(message).reduce((sum, { name, args }) => sum + name.length + Buffer.byteLength(args), 0);
  return message.parts.reduce(
    (sum, part) => sum + (part.type === 'tool_call' ? 0 : Buffer.byteLength(part.text)),
    calls,
  );
}
