import { jsonText } from '../../shared/base/json-text.ts';
import { toolCallsOf, type Message } from '../../shared/contract/message.ts';
import type { Usage } from '../../shared/contract/money.ts';
import { costOf, type Price } from './cost.ts';
import type { LlmRequest } from './provider.ts';

/** Output tokens of a call that sets no bound of its own. */
const assumedOutputTokens = 4_096;
/** Fewer than this are no answer: a call is refused rather than cut shorter. */
const leastOutputTokens = 256;

/** English text has about four bytes to a token, and other scripts fewer characters: three errs to the safe side. */
export const bytesPerToken = 3;
const tokensPerMessage = 4;

/** Tokens of the prompt, estimated from its size and rather too many than too few. */
export function promptTokensOf({
  messages,
  tools,
  responseFormat,
}: Pick<LlmRequest, 'messages' | 'tools' | 'responseFormat'>): number {
  let bytes = responseFormat ? Buffer.byteLength(jsonText(responseFormat)) : 0;
  for (const { name, description, parameters } of tools ?? []) {
    bytes += name.length + Buffer.byteLength(description) + Buffer.byteLength(jsonText(parameters));
  }
  for (const message of messages) bytes += bytesOf(message);
  return Math.ceil(bytes / bytesPerToken) + messages.length * tokensPerMessage;
}

export function maxOutputTokensOf({ maxOutputTokens = assumedOutputTokens }: LlmRequest): number {
  return maxOutputTokens;
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
  const costWith = (output: number) => costOf(usageOf(input, output), price);
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

function usageOf(input: number, output: number): Usage {
  return { input, output, cached: 0, cacheWrite: 0, total: input + output };
}

function bytesOf(message: Message): number {
  if (message.role !== 'assistant') return Buffer.byteLength(message.content);
  const calls = toolCallsOf(message).reduce((sum, { name, args }) => sum + name.length + Buffer.byteLength(args), 0);
  return message.parts.reduce(
    (sum, part) => sum + (part.type === 'tool_call' ? 0 : Buffer.byteLength(part.text)),
    calls,
  );
}
