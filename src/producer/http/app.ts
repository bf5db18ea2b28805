import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, RawServerDefault } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { ApiKey, Scope } from '../../shared/contract/config.ts';
import type { ConsoleSessions } from '../../shared/state/console-sessions.ts';
import { orLate } from '../../shared/base/deadline.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { Rights } from '../client/accept/validate.ts';
import type { Millrace } from '../client/millrace.ts';
import type { BodyRoom } from './body-room.ts';
import type { ProducerMetrics } from './metrics.ts';
import type { ProducerReadiness } from './readiness.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scope that a key needs for this route; `open` for routes that show nothing of any run. */
    access?: Scope | 'open';
    /** The answer waits for the run, so its duration is not the producer's and stays out of the histogram. */
    waits?: boolean;
  }
  interface FastifyRequest {
    /** The client of the caller's tenant. Only on routes that are not `open`. */
    mill: Millrace;
    /** Names the API key without revealing it: `key:` and the first digits of its SHA-256; `local` without keys. */
    caller: string;
    /** Whose client `mill` is, and what it may do. */
    tenant: string;
    rights: Rights;
  }
}

export type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, Log, ZodTypeProvider>;

/** What routes share besides the client, of which each request has its tenant's. */
export interface Services {
  readonly metrics: ProducerMetrics;
  readonly readiness: ProducerReadiness;
  readonly openAnswers: OpenAnswers;
  readonly redactor: Redactor;
  readonly log: Log;
  readonly bodyRoom: BodyRoom;
  /** Milliseconds between signs of life on an event stream. */
  readonly keepAliveMs: number;
  /** Milliseconds that an answer of OpenAI's API waits for its run, and a stream for the next event. */
  readonly answerWaitMs: number;
  /** None: every client of this machine is the tenant `default`. */
  readonly apiKeys: readonly ApiKey[];
  readonly sessions: ConsoleSessions;
  /** Where the built console is. */
  readonly consoleFolder: string;
}

/**
 * The answers that are not finished yet. When the process drains, those that wait for a run (event streams, waits for a
 * result) are ended, in a way that the client can resume elsewhere; the others finish.
 */
export class OpenAnswers {
  readonly #open = new Set<ServerResponse>();
  readonly #waiting = new Set<AbortController>();
  #draining = false;
  #onLastClosed: (() => void) | undefined;

  /** Set by `drain`; from then on the producer takes no new work. */
  get draining(): boolean {
    return this.#draining;
  }

  add(response: ServerResponse): void {
    this.#open.add(response);
    response.once('close', () => {
      this.#open.delete(response);
      if (this.#open.size === 0) this.#onLastClosed?.();
    });
  }

  /** Its signal aborts when the client is gone or this process drains. Disposing it ends the watch over the answer. */
  wait(response: ServerResponse): Disposable & { readonly signal: AbortSignal } {
    const controller = new AbortController();
    const onClose = () => controller.abort();
    response.once('close', onClose);
    if (response.destroyed || this.#draining) controller.abort();
    this.#waiting.add(controller);
    return {
      signal: controller.signal,
      [Symbol.dispose]: () => {
        response.off('close', onClose);
        this.#waiting.delete(controller);
      },
    };
  }

  /** Resolves when every answer is finished, or after `limitMs`. */
  async drain(limitMs: number): Promise<void> {
    this.#draining = true;
    for (const controller of this.#waiting) controller.abort();
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onLastClosed = resolve;
    await orLate(limitMs, promise, () => {});
  }
}
