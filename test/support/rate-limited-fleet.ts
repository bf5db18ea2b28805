import type { ProviderLimits, RateLimitReport, RateLimitWindow } from '../../src/shared/contract/limits.ts';
import type { RateLimiter, Grant, GrantRequest } from '../../src/shared/state/limits/rate/rate-limiter.ts';

export interface FleetLoad {
  readonly tenant: string;
  readonly runs: number;
  readonly callsPerRun: number;
  /** Milliseconds between two calls of a run. */
  readonly thinkMs?: number;
}

export interface RateLimitedFleetOptions {
  /** One per worker. */
  readonly governors: readonly RateLimiter[];
  readonly baseUrl: string;
  readonly limits: ProviderLimits;
  readonly maxInlineWaitMs: number;
  /** Runs that a worker holds at a time. */
  readonly slots: number;
  readonly signal: AbortSignal;
}

export interface FleetCall {
  readonly tenant: string;
  readonly waitedMs: number;
  readonly parked: number;
}

const wakeEveryMs = 200;

/**
 * Runs that call a provider through the governors of several workers, as workers would: a run that has to wait for long
 * gives its slot back, and comes first again when it is woken.
 */
export class RateLimitedFleet implements AsyncDisposable {
  readonly calls: FleetCall[] = [];
  readonly #options: RateLimitedFleetOptions;
  readonly #parked = new Map<string, () => void>();
  readonly #queue: (() => void)[] = [];
  readonly #timers: NodeJS.Timeout[];
  #taken = 0;

  constructor(options: RateLimitedFleetOptions) {
    this.#options = options;
    this.#timers = options.governors.map((rateLimiter) => setInterval(() => void this.#wake(rateLimiter), wakeEveryMs));
  }

  /** Resolves when all runs of this load have ended. */
  async run(loads: readonly FleetLoad[]): Promise<void> {
    await Promise.all(
      loads.flatMap((load) => Array.from({ length: load.runs }, (_, i) => this.#run(load, `${load.tenant}-${i}`))),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#options.governors.map((rateLimiter) => rateLimiter[Symbol.asyncDispose]()));
  }

  async #run({ tenant, callsPerRun, thinkMs = 0 }: FleetLoad, runId: string): Promise<void> {
    const { governors, signal } = this.#options;
    await this.#slot();
    for (let call = 0; call < callsPerRun && !signal.aborted; call++) {
      const rateLimiter = governors[(call + Number(runId.split('-').at(-1))) % governors.length] as RateLimiter;
      await this.#call(rateLimiter, tenant, runId);
      if (thinkMs > 0) await new Promise((resolve) => setTimeout(resolve, thinkMs));
    }
    this.#free();
  }

  async #call(rateLimiter: RateLimiter, tenant: string, runId: string): Promise<void> {
    const { limits, maxInlineWaitMs, signal } = this.#options;
    const text = `tenant:${tenant} ${'x'.repeat(300 + 10 * (runId.length % 7))}`;
    const request: GrantRequest = {
      limiter: 'credential:model',
      limits,
      runId,
      tenant,
      weight: 1,
      promptTokens: Math.ceil(text.length / 3),
      maxOutputTokens: 1_000,
    };
    for (let parked = 0; ; parked++) {
      const answer = await rateLimiter.acquire(request, maxInlineWaitMs, signal);
      if (answer.kind === 'granted') {
        this.calls.push({ tenant, waitedMs: answer.grant.waitedMs, parked });
        if (await this.#send(rateLimiter, answer.grant, text)) return;
        continue;
      }
      const woken = new Promise<void>((resolve) => this.#parked.set(runId, resolve));
      this.#free();
      await rateLimiter.park(request);
      await woken;
      await this.#slot('front');
    }
  }

  async #send(rateLimiter: RateLimiter, grant: Grant, text: string): Promise<boolean> {
    const response = await fetch(`${this.#options.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content: text }],
        max_tokens: 1_000,
        stream: true,
        stream_options: { include_usage: true },
      }),
    });
    const answer = await response.text();
    const report = reportOf(response.headers);
    if (response.status === 429) {
      const retryAfterS = response.headers.get('retry-after');
      await rateLimiter.settle(grant, {
        report,
        limited: { ...(retryAfterS !== null && { retryAfterMs: Number(retryAfterS) * 1000 }) },
      });
      return false;
    }
    const usedTokens = Number(/"total_tokens":(\d+)/.exec(answer)?.[1]);
    const outputTokens = Number(/"completion_tokens":(\d+)/.exec(answer)?.[1]);
    await rateLimiter.settle(grant, { report, usedTokens, outputTokens });
    return true;
  }

  async #wake(rateLimiter: RateLimiter): Promise<void> {
    for (const runId of await rateLimiter.dispatch()) {
      this.#parked.get(runId)?.();
      this.#parked.delete(runId);
    }
  }

  async #slot(where: 'front' | 'back' = 'back'): Promise<void> {
    const { slots, governors } = this.#options;
    if (this.#taken >= slots * governors.length) {
      await new Promise<void>((resolve) => this.#queue[where === 'front' ? 'unshift' : 'push'](resolve));
    }
    this.#taken++;
  }

  #free(): void {
    this.#taken--;
    this.#queue.shift()?.();
  }
}

function reportOf(headers: Headers): RateLimitReport {
  const window = (name: string): RateLimitWindow => {
    const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((what) =>
      headers.get(`x-ratelimit-${what}-${name}`),
    );
    return {
      ...(limit && { limit: Number(limit) }),
      ...(remaining && { remaining: Number(remaining) }),
      ...(reset && { resetMs: Number.parseInt(reset, 10) }),
    };
  };
  return { requests: window('requests'), tokens: window('tokens') };
}
