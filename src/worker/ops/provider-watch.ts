import type { Clock } from '../../shared/base/clock.ts';
import { defined } from '../../shared/base/collections.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import { clip } from '../../shared/base/text.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { isOfProvider, type ProviderReport } from '../../shared/contract/provider-report.ts';

/** A provider that a worker has, and how to ask whether it is there. */
export interface WatchedProvider extends Pick<
  ProviderReport,
  'id' | 'kind' | 'host' | 'hasKey' | 'requestsPerMinute' | 'tokensPerMinute'
> {
  /** Answers an HTTP status, and rejects when there is no answer. Absent: there is nothing to ask. */
  readonly look?: (signal: AbortSignal) => Promise<number>;
}

const lookEveryMs = 60_000;
/** One that answers is asked less often, and one that answers calls is not asked at all. */
const answersForMs = 300_000;
const deadlineMs = 5_000;
const maxProviders = 32;
const maxMessageChars = 200;
const maxNameChars = 128;

type News = Pick<ProviderReport, 'endpoint' | 'lastError' | 'lastAnswerAt'>;

/** Remembers of each provider whether it answers and its last error, for the announcements of a worker. */
export class ProviderWatch implements Disposable {
  readonly #providers: readonly WatchedProvider[];
  readonly #news = new Map<string, News>();
  readonly #clock: Pick<Clock, 'now'>;
  readonly #redactor: Pick<Redactor, 'text'>;
  readonly #closing = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(
    providers: readonly WatchedProvider[],
    { clock, redactor }: { readonly clock: Pick<Clock, 'now'>; readonly redactor: Pick<Redactor, 'text'> },
  ) {
    this.#providers = providers.slice(0, maxProviders);
    this.#clock = clock;
    this.#redactor = redactor;
    this.#timer = setInterval(() => void this.look(), lookEveryMs).unref();
  }

  /** For the observer of a worker: calls of providers that it does not know of itself are noted, too. */
  observe(event: EventBody): void {
    if (event.type !== 'llm.call' || event.outcome === 'skipped' || event.error?.kind === 'cancelled') return;
    const { provider, model, outcome, error } = event;
    if (!this.#news.has(provider) && this.#news.size >= maxProviders) return;
    const at = this.#now();
    if (outcome === 'succeeded') return this.#learn(provider, { lastAnswerAt: at });
    const { kind = 'unknown', status, message } = error ?? {};
    const shown =
      message !== undefined && isOfProvider(kind) ? clip(this.#redactor.text(message), maxMessageChars) : undefined;
    this.#learn(provider, {
      lastError: defined({ kind, status, message: shown, model: clip(model, maxNameChars), at }),
    });
  }

  reports(): readonly ProviderReport[] {
    const ids = new Set(this.#providers.map(({ id }) => id));
    const other = [...this.#news.keys()].filter((id) => !ids.has(id));
    return [
      ...this.#providers.map(({ id, kind, host, hasKey, requestsPerMinute, tokensPerMinute }) =>
        defined({ id, kind, host, hasKey, requestsPerMinute, tokensPerMinute, ...this.#news.get(id) }),
      ),
      ...other.map((id) => ({
        id: clip(id, maxNameChars),
        kind: 'custom' as const,
        hasKey: false,
        ...this.#news.get(id),
      })),
    ].slice(0, maxProviders);
  }

  /** Asks every provider of which that is due. Never rejects. */
  async look(): Promise<void> {
    await Promise.all(this.#providers.map((provider) => this.#lookAt(provider)));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#closing.abort();
  }

  async #lookAt({ id, look }: WatchedProvider): Promise<void> {
    const { endpoint, lastAnswerAt } = this.#news.get(id) ?? {};
    const answeredAt = endpoint?.state === 'answers' ? endpoint.at : '';
    const known = Date.parse([answeredAt, lastAnswerAt ?? ''].sort().at(-1) ?? '');
    if (!look || this.#clock.now() - known < answersForMs) return;
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(deadlineMs)]);
    const seen = await look(signal).then(stateOf, () => ({ state: 'unreachable' as const }));
    if (!this.#closing.signal.aborted) this.#learn(id, { endpoint: { ...seen, at: this.#now() } });
  }

  #learn(id: string, news: News): void {
    this.#news.set(id, { ...this.#news.get(id), ...news });
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}

/** A compatible server need not have the list: any other answer shows that it is there. */
function stateOf(status: number): Omit<NonNullable<ProviderReport['endpoint']>, 'at'> {
  if (status === 401 || status === 403) return { state: 'refuses_key', status };
  return { state: status >= 500 ? 'fails' : 'answers', status };
}
