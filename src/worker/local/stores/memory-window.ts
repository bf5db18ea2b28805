import type { ProviderLimits, RateLimitReport, RateLimitWindow } from '../../../shared/contract/limits.ts';
import type { GrantOutcome } from '../../../shared/state/limits/rate/rate-limiter.ts';

interface Amount {
  readonly requests: number;
  readonly tokens: number;
}

const none: Amount = { requests: 0, tokens: 0 };
const share = 0.97;
const bucketsPerWindow = 120;
/** A sixth more than a window, to compare with what providers say. */
const rememberedBuckets = 140;
const lookMs = 50;
/** What the looks of a busy worker may come late. */
const lateMs = 200;

/** A call that wants room in the window. */
interface WindowCall {
  readonly tokens: number;
  /** Tokens to keep free, because calls under way may use more than expected. */
  readonly margin: number;
  /** What is promised. */
  readonly held: Amount;
  readonly when: 'now' | 'soon' | 'promised';
  /** Its tenant has many in line. */
  readonly many: boolean;
}

/** What a provider allows, and what was granted of it within the last window: in 120 sub-buckets and a guard. */
export class LimitWindow {
  readonly #clock: () => number;
  #now = 0;
  #limits: ProviderLimits = {};
  readonly #buckets = new Map<number, Amount>();
  #paid: Amount = none;
  #seen: Amount = none;
  #delayMs = 300;
  /** Requests per window, learnt from refusals; 0: none. */
  #rate = 0;
  /** Added to the guard after refusals at the brim: calls took longer to the provider than it allowed for. */
  #cautionMs = 0;
  #refusedAt = 0;
  #coolFrom = 0;
  #coolUntil = 0;
  #streak = 0;
  #heat = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  get limits(): ProviderLimits {
    return this.#limits;
  }

  /** Begins a look at the window: time stands still until the next one. */
  open(limits = this.#limits): void {
    this.#now = Math.max(this.#now, this.#clock());
    if (limits.windowMs !== this.#limits.windowMs) this.#buckets.clear();
    this.#limits = limits;
    const oldest = this.bucket() - rememberedBuckets - this.#guard;
    for (const bucket of this.#buckets.keys()) if (bucket < oldest) this.#buckets.delete(bucket);
  }

  now(): number {
    return this.#now;
  }

  bucket(atMs = this.#now): number {
    return Math.floor(atMs / (this.#windowMs / bucketsPerWindow));
  }

  add(bucket: number, requests: number, tokens: number): void {
    if (bucket < this.bucket() - rememberedBuckets - this.#guard || (requests === 0 && tokens === 0)) return;
    const held = this.#buckets.get(bucket) ?? none;
    this.#buckets.set(bucket, { requests: held.requests + requests, tokens: held.tokens + tokens });
  }

  /** Moves the paces: what was taken, or given back. */
  pay(requests: number, tokens: number): void {
    const most = this.#allowed();
    this.#paid = {
      requests: Math.max(this.#paid.requests, this.#now) + this.#paceMs(most.requests, requests),
      tokens: Math.max(this.#paid.tokens, this.#now) + this.#paceMs(most.tokens, tokens),
    };
  }

  isFree(): boolean {
    const { requests, tokens } = this.#allowed();
    const limited = requests < Infinity || tokens < Infinity || this.#limits.maxInFlight !== undefined;
    return !limited && this.coolingMs() === 0;
  }

  coolingMs(): number {
    return Math.max(0, this.#coolUntil - this.#now);
  }

  /** How long a woken run takes until it asks for its turn. */
  learnDelay(ms: number): void {
    this.#delayMs += 0.2 * (Math.min(2_000, this.#windowMs / 4, ms) - this.#delayMs);
  }

  /**
   * Milliseconds until another look is worth it; 0: there is room for this call. Bursts and the last of a window are for
   * tenants that do not have many in line.
   */
  blockedMs({ tokens: expected, margin, held, when, many }: WindowCall): number {
    if (this.coolingMs() > 0) return this.coolingMs();
    const allowed = this.#allowed();
    const requests = spare(Math.max(1, allowed.hardRequests), many);
    const n = Math.min(expected, allowed.tokens);
    const tokens = many ? Math.max(n, 0.99 * allowed.tokens) : allowed.tokens;
    const room = tokens - n - Math.min(margin, 0.15 * tokens, tokens - n);
    if (when !== 'soon') {
      const sum = this.#sum(this.#now);
      if (sum.requests + 1 > requests || sum.tokens > room) return lookMs;
    }
    if (when === 'promised') return 0;
    const then = this.#sum(this.#now + this.#delayMs);
    if (then.requests + held.requests + 1 > requests || then.tokens + held.tokens > room) return lookMs;
    return this.#lagMs(n, many);
  }

  /** By how many calls a tenant may be ahead that used less than its share. */
  creditRequests(): number {
    const { hardRequests } = this.#allowed();
    return Math.max(8, hardRequests < Infinity ? 0.13 * hardRequests : 0);
  }

  expectedMs(tokens: number, ahead: number, leastEachMs: number): number {
    const most = this.#allowed();
    const eachMs = Math.max(this.#paceMs(most.requests, 1), this.#paceMs(most.tokens, tokens), leastEachMs);
    return Math.ceil(this.coolingMs() + Math.max(this.#lagMs(tokens, ahead > 0), ahead * eachMs));
  }

  /** Learns from an answer or a refusal to a call made at `since`. Answers the length of a cooldown that begins now. */
  learn(since: number, report: RateLimitReport = {}, limited: GrantOutcome['limited'], counted: boolean): number {
    const calm = this.coolingMs() === 0;
    this.#learnReport(since, report);
    if (limited) return this.#learnRefusal(since, calm, counted, limited.retryAfterMs);
    if (counted && since >= this.#coolUntil) {
      this.#streak = 0;
      if (this.#rate > 0) this.#rate += 0.05;
    }
    return 0;
  }

  known() {
    return {
      requestsPerMinute: this.#seen.requests,
      tokensPerMinute: this.#seen.tokens,
      requestsPerWindow: Math.floor(this.#rate),
    };
  }

  get #windowMs(): number {
    return this.#limits.windowMs ?? 60_000;
  }

  get #guard(): number {
    return Math.min(12, Math.max(1, Math.ceil((250 + this.#cautionMs) / (this.#windowMs / bucketsPerWindow))));
  }

  /** What a window may hold. A rate learnt from refusals only sets the pace: `hardRequests` is without it. */
  #allowed(): Amount & { readonly hardRequests: number } {
    const scale = this.#windowMs / 60_000;
    if (this.#now - this.#refusedAt > 1_800_000) [this.#rate, this.#cautionMs] = [0, 0];
    const { requestsPerMinute = Infinity, tokensPerMinute = Infinity } = this.#limits;
    const hardRequests = Math.min(requestsPerMinute, this.#seen.requests || Infinity) * scale;
    return {
      requests: Math.min(hardRequests, this.#rate || Infinity),
      tokens: Math.min(tokensPerMinute, this.#seen.tokens || Infinity) * scale,
      hardRequests,
    };
  }

  /** Milliseconds that so much takes at the pace of the limiter: a little below what is allowed. */
  #paceMs(allowance: number, amount: number): number {
    return (amount * this.#windowMs) / (share * allowance);
  }

  /** Milliseconds by which the paces are behind; 0 within a small burst. A call larger than the burst leaves a debt. */
  #lagMs(tokens: number, many: boolean): number {
    const most = this.#allowed();
    const within = (aheadMs: number) => (many ? Math.min(lateMs, aheadMs) : aheadMs);
    let waitMs = 0;
    if (most.requests < Infinity) {
      const burst = Math.max(1, 0.12 * most.requests, Math.min(3, most.requests / 2));
      waitMs = this.#paid.requests - this.#now - within(this.#paceMs(most.requests, burst - 1));
    }
    if (most.tokens < Infinity) {
      const ahead = this.#paceMs(most.tokens, Math.max(0, 0.12 * most.tokens - tokens));
      waitMs = Math.max(waitMs, this.#paid.tokens - this.#now - within(ahead));
    }
    return Math.ceil(Math.max(0, waitMs));
  }

  #sum(atMs: number, buckets = bucketsPerWindow + this.#guard): Amount {
    const first = this.bucket(atMs) - buckets;
    let [requests, tokens] = [0, 0];
    for (const [bucket, held] of this.#buckets) {
      if (bucket < first) continue;
      requests += held.requests;
      tokens += held.tokens;
    }
    return { requests, tokens };
  }

  /** Requests per window, as granted while there were any. */
  #speed(): number {
    const width = this.#windowMs / bucketsPerWindow;
    const activeMs = this.#now - Math.min(this.bucket(), ...this.#buckets.keys()) * width;
    const { requests } = this.#sum(this.#now, rememberedBuckets + this.#guard);
    return (requests * this.#windowMs) / Math.max(this.#windowMs / 6, activeMs);
  }

  #learnReport(since: number, { requests, tokens }: RateLimitReport): void {
    this.#seen = {
      requests: requests?.limit || this.#seen.requests,
      tokens: tokens?.limit || this.#seen.tokens,
    };
    if (this.#now - since > this.#windowMs / 6) return;
    const most = this.#allowed();
    const ours = this.#sum(this.#now);
    const saidAt = Math.min(this.#now, since + 2_000);
    this.#pause(requests, saidAt, ours.requests, most.requests);
    this.#pause(tokens, saidAt, ours.tokens, most.tokens);
    const all = this.#sum(this.#now, rememberedBuckets + this.#guard);
    this.add(
      this.bucket(),
      this.#byOthers(this.#seen.requests, requests?.remaining, most.requests, all.requests),
      this.#byOthers(this.#seen.tokens, tokens?.remaining, most.tokens, all.tokens),
    );
  }

  #pause(said: RateLimitWindow | undefined, saidAt: number, ours: number, most: number): void {
    if (said?.remaining !== 0 || !said.resetMs || (most < Infinity && ours >= 0.9 * most)) return;
    this.#coolUntil = Math.max(this.#coolUntil, saidAt + Math.min(said.resetMs, 60_000));
  }

  #byOthers(limit: number, remaining: number | undefined, most: number, ours: number): number {
    if (limit === 0 || remaining === undefined || most === Infinity) return 0;
    const used = ((limit - remaining) * this.#windowMs) / 60_000;
    return used - ours > 0.1 * most ? used - ours : 0;
  }

  #learnRefusal(since: number, calm: boolean, counted: boolean, retryAfterMs: number | undefined): number {
    const fresh = calm && since >= this.#coolFrom;
    if (fresh) {
      this.#streak = this.#now - this.#coolUntil > 60_000 ? 1 : Math.min(7, this.#streak + 1);
      this.#heat = this.#heat * Math.exp(-(this.#now - this.#refusedAt) / (5 * this.#windowMs)) + 1;
      this.#coolFrom = this.#now;
      this.#refusedAt = this.#now;
      const most = this.#allowed();
      const sum = this.#sum(this.#now);
      const full = sum.requests > 0.8 * most.hardRequests || sum.tokens > 0.8 * most.tokens;
      if (counted && full) this.#cautionMs += 100;
      if ((most.requests === Infinity && most.tokens === Infinity) || this.#heat > 2.5 || this.#rate > 0) {
        this.#rate = Math.max(this.#windowMs / 6_000, 0.8 * Math.min(this.#speed(), this.#rate || Infinity));
      }
    }
    const waitMs = retryAfterMs ?? 1_000 * 2 ** (Math.max(1, this.#streak) - 1);
    this.#coolUntil = Math.max(this.#coolUntil, this.#now + Math.max(250, Math.min(60_000, waitMs)));
    return fresh ? this.#coolUntil - this.#now : 0;
  }
}

function spare(requests: number, many: boolean): number {
  return many && requests < Infinity ? requests - Math.floor(0.025 * requests + 0.5) : requests;
}
