import { performance } from 'node:perf_hooks';
import { chat, startRawProvider, status, type RawProvider, type RawRequest, type Reply } from './raw-provider.ts';

export interface LimitedProviderOptions {
  /** What any stretch of `windowMs` may hold. */
  readonly requests: number;
  readonly tokens: number;
  readonly windowMs: number;
  /** From the arrival of a request to its answer. */
  readonly latencyMs?: (random: number) => number;
  /** Tokens of an answer. */
  readonly outputTokens?: (random: number) => number;
  /** What answers say about the limits, per minute as providers do. Default: limits in headers and `retry-after`. */
  readonly reports?: 'all' | 'retry-after' | 'nothing';
}

/** A request as it was counted. */
export interface LimitedCall {
  readonly atMs: number;
  readonly tenant: string;
  /** Of the idempotency key. */
  readonly runId: string;
  readonly tokens: number;
  readonly refused: boolean;
}

/**
 * A model server that allows so many requests and tokens in any stretch of a window, counted exactly and when they
 * arrive, and answers 429 to all beyond. The text `tenant:<name>` anywhere in a request says whose it is.
 */
export class LimitedProvider implements AsyncDisposable {
  readonly calls: LimitedCall[] = [];
  readonly #options: Required<LimitedProviderOptions>;
  #server: RawProvider | undefined;
  #windowFrom = 0;
  #windowRequests = 0;
  #windowTokens = 0;
  #seed = 1;

  private constructor(options: LimitedProviderOptions) {
    this.#options = { latencyMs: () => 20, outputTokens: () => 20, reports: 'all', ...options };
  }

  static async start(options: LimitedProviderOptions): Promise<LimitedProvider> {
    const provider = new LimitedProvider(options);
    provider.#server = await startRawProvider((response, request) => provider.#answer(response, request));
    return provider;
  }

  /** For `OPENAI_BASE_URL`. */
  get baseUrl(): string {
    return this.#server?.url as string;
  }

  /** Requests refused since a time of `performance.now()`. */
  refusedSince(atMs = 0): number {
    return this.calls.filter((call) => call.refused && call.atMs >= atMs).length;
  }

  /** The larger share of what was allowed, requests or tokens, that was used between two times of `performance.now()`. */
  utilisation(fromMs: number, toMs: number): number {
    const { requests, tokens, windowMs } = this.#options;
    const served = this.calls.filter((call) => !call.refused && call.atMs >= fromMs && call.atMs < toMs);
    const windows = (toMs - fromMs) / windowMs;
    const used = served.reduce((sum, call) => sum + call.tokens, 0);
    return Math.max(served.length / (requests * windows), used / (tokens * windows));
  }

  /** Utilisation of each whole window from a time on. */
  utilisationByWindow(fromMs: number, toMs: number): readonly number[] {
    const { windowMs } = this.#options;
    const count = Math.max(0, Math.floor((toMs - fromMs) / windowMs));
    return Array.from({ length: count }, (_, i) =>
      this.utilisation(fromMs + i * windowMs, fromMs + (i + 1) * windowMs),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server?.[Symbol.asyncDispose]();
  }

  async #answer(response: Parameters<Reply>[0], request: RawRequest): Promise<void> {
    const { requests, tokens, latencyMs, outputTokens } = this.#options;
    const text = JSON.stringify(request.body?.messages ?? '');
    const promptTokens = Math.ceil(text.length / 4);
    const most = Number(request.body?.max_completion_tokens ?? request.body?.max_tokens ?? Infinity);
    const completionTokens = Math.max(1, Math.min(most, Math.round(outputTokens(this.#random()))));
    const total = promptTokens + completionTokens;
    const atMs = performance.now();
    this.#forgetBefore(atMs - this.#options.windowMs);
    const refused = this.#windowRequests + 1 > requests || this.#windowTokens + total > tokens;
    const tenant = /tenant:([\w-]+)/.exec(text)?.[1] ?? '';
    const runId = String(request.headers['idempotency-key']).split(':')[0] as string;
    this.calls.push({ atMs, tenant, runId, tokens: total, refused });
    if (!refused) {
      this.#windowRequests++;
      this.#windowTokens += total;
    }
    const headers = this.#headers(atMs, refused);
    if (refused) {
      const error = { type: 'requests', code: 'rate_limit_exceeded' };
      return await status(429, error, headers)(response, request);
    }
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    await new Promise((resolve) => setTimeout(resolve, latencyMs(this.#random())));
    const usage = { prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: total };
    await chat(() => ({ text: 'Done.', usage }))(response, request);
  }

  #headers(atMs: number, refused: boolean): Record<string, string> {
    const { requests, tokens, windowMs, reports } = this.#options;
    if (reports === 'nothing') return {};
    const perMinute = (amount: number) => String(Math.max(0, Math.floor((amount * 60_000) / windowMs)));
    const oldest = this.calls.slice(this.#windowFrom).find((call) => !call.refused);
    const resetMs = Math.ceil((oldest?.atMs ?? atMs) + windowMs - atMs);
    const retry = refused ? { 'retry-after': String(Math.ceil(resetMs / 1000)) } : {};
    if (reports === 'retry-after') return retry;
    return {
      ...retry,
      'x-ratelimit-limit-requests': perMinute(requests),
      'x-ratelimit-remaining-requests': perMinute(requests - this.#windowRequests),
      'x-ratelimit-reset-requests': `${resetMs}ms`,
      'x-ratelimit-limit-tokens': perMinute(tokens),
      'x-ratelimit-remaining-tokens': perMinute(tokens - this.#windowTokens),
      'x-ratelimit-reset-tokens': `${resetMs}ms`,
    };
  }

  /** Takes calls that have left the window out of its sums. */
  #forgetBefore(fromMs: number): void {
    for (; this.#windowFrom < this.calls.length; this.#windowFrom++) {
      const call = this.calls[this.#windowFrom] as LimitedCall;
      if (call.atMs > fromMs) return;
      if (call.refused) continue;
      this.#windowRequests--;
      this.#windowTokens -= call.tokens;
    }
  }

  #random(): number {
    this.#seed = (Math.imul(this.#seed, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#seed / 2 ** 32;
  }
}
