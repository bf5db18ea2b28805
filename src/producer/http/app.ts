import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, RawServerDefault } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Scope } from '../../shared/contract/config.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { Millrace } from '../client/millrace.ts';
import type { BodyRoom } from './body-room.ts';
import type { ProducerMetrics } from './metrics.ts';
import type { OpenAnswers } from './open-answers.ts';
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
  }
}

export type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, Log, ZodTypeProvider>;

/** What routes share besides the client, of which each request has its tenant's. */
export interface Services {
  readonly metrics: ProducerMetrics;
  readonly readiness: ProducerReadiness;
  readonly openAnswers: OpenAnswers;
  readonly redactor: Redactor;
  readonly bodyRoom: BodyRoom;
  /** Milliseconds between signs of life on an event stream. */
  readonly keepAliveMs: number;
}
