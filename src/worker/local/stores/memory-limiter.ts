import type { ProviderLimits } from '../../../shared/contract/limits.ts';
import type { GrantRequest } from '../../../shared/state/limits/rate/rate-limiter.ts';
import type {
  Ask,
  Learnt,
  LimiterAnswer,
  Settling,
  Waiting,
} from '../../../shared/state/limits/rate/polled-limiter.ts';
import { LimitWindow } from './memory-window.ts';

interface Waiter {
  readonly id: string;
  readonly order: number;
  readonly askedAt: number;
  request: GrantRequest;
  /** local: somebody waits; parked; woken; away: its place is kept until `untilMs`. */
  state: 'local' | 'parked' | 'woken' | 'away';
  grantId?: string | undefined;
  untilMs: number;
  /** It was woken for its turn and stands first of all. */
  promised: boolean;
  /** How often it was woken and did not come. */
  missed: number;
}

interface Lease {
  readonly tokens: number;
  readonly request: GrantRequest;
  readonly atMs: number;
  readonly askedAt: number;
  /** Where it is counted; absent for a promise. */
  readonly bucket?: number;
  untilMs: number;
  seen: boolean;
}

const promiseMs = 30_000;
const unseenMs = 4_000;
const seatMs = 4_000;
const leaseMs = 60_000;
const awayMs = 60_000;
const lookMs = 50;

/** A limiter of one process. The scripts `lua/governor-*.lua` are the same in Redis, and say more about the why. */
export class MemoryLimiter {
  readonly #window: LimitWindow;
  readonly #waiters = new Map<string, Waiter>();
  readonly #leases = new Map<string, Lease>();
  readonly #virtualTimes = new Map<string, number>();
  #virtual = 0;
  #usual = 1_000;
  #order = 0;
  #wake: string[] = [];
  #answer = { samples: 0, mean: 0, spread: 0, ratio: 1, durationMs: 1_000 };

  constructor(now: () => number) {
    this.#window = new LimitWindow(now);
  }

  /** Nobody waits for anything here and nothing is promised. */
  get idle(): boolean {
    return this.#waiters.size === 0;
  }

  ask({ request, waiter: id, grantId, patienceMs, freed }: Ask): LimiterAnswer {
    this.#open(request.limits);
    this.#window.add(this.#window.bucket(), freed, 0);
    const known = this.#waiters.get(id);
    if (this.#window.isFree() && !known) return { kind: 'free' };
    const now = this.#window.now();
    const promise = this.#leases.get(promiseOf(id));
    if (promise) this.#window.learnDelay(now - promise.atMs);
    const waiter: Waiter = known ?? this.#newWaiter(id, request);
    Object.assign(waiter, {
      request,
      state: 'local',
      grantId,
      missed: 0,
      untilMs: now + seatMs,
      promised: promise !== undefined,
    });
    this.#enter(waiter);
    const retryMs = this.#dispatch();
    const answer = this.#answerFor(id, grantId, retryMs);
    if (answer.kind !== 'waiting' || waiter.promised) return answer;
    const expectedMs = this.#expectedMs(waiter);
    if (expectedMs <= 1.25 * patienceMs) return answer;
    this.#stayAway(waiter, awayMs);
    return { kind: 'parked', expectedMs };
  }

  poll(limits: ProviderLimits, waiting: readonly Waiting[], grantIds: readonly string[]) {
    this.#window.open(limits);
    const now = this.#window.now();
    for (const { waiter: id, grantId } of waiting) {
      const waiter = this.#waiters.get(id);
      if (waiter?.state === 'local' && waiter.grantId === grantId) waiter.untilMs = now + seatMs;
    }
    for (const id of grantIds) {
      const lease = this.#leases.get(id);
      if (lease) lease.untilMs = now + leaseMs;
    }
    this.#open(limits);
    const retryMs = this.#dispatch();
    return { retryMs, answers: waiting.map(({ waiter, grantId }) => this.#answerFor(waiter, grantId, retryMs)) };
  }

  stepAway({ waiter: id, grantId }: Waiting): LimiterAnswer {
    this.#open();
    const answer = this.#answerFor(id, grantId, 0);
    const waiter = answer.kind === 'waiting' ? this.#waiters.get(id) : undefined;
    if (waiter) {
      const expectedMs = this.#expectedMs(waiter);
      this.#undo(promiseOf(id));
      this.#stayAway(waiter, awayMs);
      this.#dispatch();
      return { kind: 'parked', expectedMs };
    }
    return answer.kind === 'granted' ? answer : { kind: 'parked', expectedMs: 0 };
  }

  park(request: GrantRequest): void {
    this.#open(request.limits);
    const id = request.runId;
    if (this.#leases.has(promiseOf(id))) {
      if (!this.#wake.includes(id)) this.#wake.push(id);
    } else {
      const waiter = this.#waiters.get(id) ?? this.#newWaiter(id, request);
      Object.assign(waiter, {
        request,
        state: 'parked',
        grantId: undefined,
        untilMs: Infinity,
        promised: false,
        missed: 0,
      });
      this.#enter(waiter);
    }
    this.#dispatch();
  }

  leave(runId: string): void {
    this.#open();
    this.#waiters.delete(runId);
    this.#undo(promiseOf(runId));
    this.#wake = this.#wake.filter((id) => id !== runId);
    this.#dispatch();
  }

  settle({ limits, grantId = '', ageMs, outcome, freed }: Settling): Learnt {
    this.#open(limits);
    const { usedTokens, outputTokens, unused, limited, report } = outcome;
    const window = this.#window;
    window.add(window.bucket(), freed, 0);
    const lease = this.#leases.get(grantId);
    const since = lease?.atMs ?? window.now() - ageMs;
    if (unused) this.#undo(grantId);
    else if (lease) {
      const used = limited ? (usedTokens ?? 0) : usedTokens;
      const more = used === undefined ? 0 : used - lease.tokens;
      window.add(lease.bucket ?? 0, 0, more);
      window.pay(0, more);
      this.#spend(lease.request.tenant, more / lease.request.weight);
      this.#leases.delete(grantId);
      if (!limited) this.#learnAnswer(lease, usedTokens, outputTokens);
    }
    const cooldownMs = window.learn(since, report, limited, lease !== undefined && !unused);
    this.#dispatch();
    return { cooldownMs, ...window.known() };
  }

  pump(): readonly string[] {
    this.#open();
    this.#dispatch();
    const woken = this.#wake;
    this.#wake = [];
    return woken;
  }

  #open(limits?: ProviderLimits): void {
    this.#window.open(limits);
    const now = this.#window.now();
    for (const [id, lease] of this.#leases) {
      if (lease.untilMs > now) continue;
      const waiter = lease.bucket === undefined ? this.#waiters.get(lease.request.runId) : undefined;
      if (lease.seen) this.#leases.delete(id);
      else this.#undo(id);
      if (waiter?.state === 'woken') this.#wakeAgain(waiter);
    }
    for (const [id, waiter] of this.#waiters) {
      if (waiter.untilMs > now) continue;
      if (waiter.state === 'local') this.#stayAway(waiter, awayMs);
      else if (waiter.missed > 0 && waiter.missed < 4) this.#wakeAgain(waiter);
      else this.#waiters.delete(id);
    }
  }

  /** A woken run did not come. It is woken again, a few times; its place is kept meanwhile. */
  #wakeAgain(waiter: Waiter): void {
    waiter.missed++;
    this.#stayAway(waiter, promiseMs);
    this.#wake.push(waiter.id);
  }

  #newWaiter(id: string, request: GrantRequest): Waiter {
    const askedAt = this.#window.now();
    return { id, order: ++this.#order, askedAt, request, state: 'away', untilMs: Infinity, promised: false, missed: 0 };
  }

  #enter(waiter: Waiter): void {
    const { tenant } = waiter.request;
    const waits = this.#line().some((other) => other.request.tenant === tenant && !other.promised);
    if (!waits) this.#virtualTimes.set(tenant, Math.max(this.#virtualOf(tenant), this.#earliest()));
    this.#waiters.set(waiter.id, waiter);
  }

  #stayAway(waiter: Waiter, ms: number): void {
    Object.assign(waiter, {
      state: 'away',
      grantId: undefined,
      promised: false,
      untilMs: this.#window.now() + ms,
    });
  }

  /** Those whose turn may come, in no order. */
  #line(): readonly Waiter[] {
    return [...this.#waiters.values()].filter(({ state }) => state === 'local' || state === 'parked');
  }

  /** The virtual time before which nobody starts. Who used less than its share lately is ahead by a few calls. */
  #earliest(): number {
    return this.#virtual - this.#window.creditRequests() * this.#usual;
  }

  #virtualOf(tenant: string): number {
    return this.#virtualTimes.get(tenant) ?? this.#earliest();
  }

  #spend(tenant: string, amount: number): void {
    this.#virtualTimes.set(tenant, this.#virtualOf(tenant) + amount);
  }

  /** The promised before all, then the tenant with the smallest virtual time, then first come, first served. */
  #first(): Waiter | undefined {
    const before = (a: Waiter, b: Waiter) => {
      if (a.promised !== b.promised) return a.promised;
      const [x, y] = [this.#timeOf(a), this.#timeOf(b)];
      if (a.promised || x === y) {
        return a.promised || a.request.tenant === b.request.tenant
          ? a.order < b.order
          : a.request.tenant < b.request.tenant;
      }
      return x < y;
    };
    let first: Waiter | undefined;
    for (const waiter of this.#line()) if (!first || before(waiter, first)) first = waiter;
    return first;
  }

  #timeOf({ request }: Waiter): number {
    return this.#virtualTimes.get(request.tenant) ?? 0;
  }

  /** Gives out what there is, in fair order. Answers how long to wait before the next look. */
  #dispatch(): number {
    for (;;) {
      const waiter = this.#first();
      if (!waiter) return 250;
      const waitMs = this.#blockedMs(waiter);
      if (waitMs > 0) return waitMs;
      this.#serve(waiter);
    }
  }

  #blockedMs(waiter: Waiter): number {
    const promises = this.#promises();
    const calls = this.#leases.size - promises.length;
    const { maxInFlight } = this.#window.limits;
    if (!waiter.promised && maxInFlight !== undefined && this.#leases.size >= maxInFlight)
      return Math.max(lookMs, this.#window.coolingMs());
    const held = { requests: promises.length, tokens: promises.reduce((sum, { tokens }) => sum + tokens, 0) };
    const margin = 2 * Math.sqrt(this.#answer.spread * (calls + 1));
    const when = waiter.promised ? 'promised' : waiter.state === 'local' ? 'now' : 'soon';
    const { tenant } = waiter.request;
    const many = !waiter.promised && this.#line().filter(({ request }) => request.tenant === tenant).length > 3;
    return this.#window.blockedMs({ tokens: this.#expectedTokens(waiter), margin, held, when, many });
  }

  #promises(): readonly Lease[] {
    return [...this.#leases.values()].filter(({ bucket }) => bucket === undefined);
  }

  #serve(waiter: Waiter): void {
    const { id, request, askedAt, grantId = '' } = waiter;
    const atMs = this.#window.now();
    const promise = waiter.promised ? this.#leases.get(promiseOf(id)) : undefined;
    const tokens = promise?.tokens ?? this.#expectedTokens(waiter);
    if (!promise) {
      this.#virtual = Math.max(this.#virtual, this.#virtualOf(request.tenant));
      this.#usual += 0.05 * (tokens - this.#usual);
      this.#spend(request.tenant, tokens / request.weight);
      const earliest = this.#earliest();
      for (const [tenant, time] of this.#virtualTimes)
        if (time <= earliest && !this.#isWaiting(tenant)) this.#virtualTimes.delete(tenant);
      this.#window.pay(1, tokens);
    }
    if (waiter.state === 'local') {
      this.#leases.delete(promiseOf(id));
      this.#waiters.delete(id);
      const bucket = this.#window.bucket();
      this.#window.add(bucket, 1, tokens);
      this.#leases.set(grantId, { tokens, request, atMs, askedAt, bucket, untilMs: atMs + unseenMs, seen: false });
      return;
    }
    Object.assign(waiter, { state: 'woken', untilMs: Infinity });
    this.#leases.set(promiseOf(id), { tokens, request, atMs, askedAt, untilMs: atMs + promiseMs, seen: false });
    this.#wake.push(id);
  }

  #isWaiting(tenant: string): boolean {
    return this.#line().some(({ request }) => request.tenant === tenant);
  }

  /** Takes back what was never sent. */
  #undo(id: string): void {
    const lease = this.#leases.get(id);
    if (!lease) return;
    this.#leases.delete(id);
    if (lease.bucket !== undefined) this.#window.add(lease.bucket, -1, -lease.tokens);
    this.#window.pay(-1, -lease.tokens);
    this.#spend(lease.request.tenant, -lease.tokens / lease.request.weight);
  }

  #answerFor(id: string, grantId: string, retryMs: number): LimiterAnswer {
    const lease = this.#leases.get(grantId);
    if (lease) {
      lease.seen = true;
      lease.untilMs = this.#window.now() + leaseMs;
      return { kind: 'granted', tokens: lease.tokens, waitedMs: lease.atMs - lease.askedAt };
    }
    return this.#waiters.get(id)?.grantId === grantId ? { kind: 'waiting', retryMs } : { kind: 'unknown' };
  }

  #expectedTokens({ request: { promptTokens, maxOutputTokens } }: Waiter): number {
    const { samples, mean, ratio } = this.#answer;
    return Math.max(1, Math.round(promptTokens * ratio + Math.min(maxOutputTokens, samples > 0 ? mean : 1_024)));
  }

  #learnAnswer({ request, atMs }: Lease, used?: number, output?: number): void {
    const learnt = this.#answer;
    learnt.durationMs += 0.1 * (this.#window.now() - atMs - learnt.durationMs);
    if (used === undefined || output === undefined) return;
    const { promptTokens } = request;
    const step = Math.max(0.05, 1 / (learnt.samples + 1));
    const error = used - promptTokens * learnt.ratio - learnt.mean;
    if (learnt.samples > 0) learnt.spread += Math.max(0.05, 1 / learnt.samples) * (error * error - learnt.spread);
    if (promptTokens > 0) {
      const ratio = learnt.ratio + step * ((used - output) / promptTokens - learnt.ratio);
      learnt.ratio = Math.min(3, Math.max(0.3, ratio));
    }
    learnt.mean += step * (output - learnt.mean);
    learnt.samples = Math.min(1_000, learnt.samples + 1);
  }

  /** About how long a waiter will wait: what stands before it in fair order, at the pace of the limiter. */
  #expectedMs(waiter: Waiter): number {
    const { tenant, weight } = waiter.request;
    const tokens = this.#expectedTokens(waiter);
    const line = this.#line().filter((other) => other !== waiter);
    const own = line.filter((other) => other.request.tenant === tenant && other.order < waiter.order).length;
    const finish = this.#timeOf(waiter) + (own * tokens) / weight;
    let ahead = own;
    for (const [other, members] of Map.groupBy(line, ({ request }) => request.tenant)) {
      const [first] = members;
      if (other === tenant || !first) continue;
      const turns = Math.ceil((Math.max(0, finish - this.#timeOf(first)) * first.request.weight) / tokens);
      ahead += Math.min(turns, members.length);
    }
    const { maxInFlight } = this.#window.limits;
    const eachMs = maxInFlight === undefined ? 0 : this.#answer.durationMs / maxInFlight;
    return this.#window.expectedMs(tokens, ahead, eachMs);
  }
}

function promiseOf(runId: string): string {
  return `p:${runId}`;
}
