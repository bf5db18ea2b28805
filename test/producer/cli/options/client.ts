import { inject, onTestFinished } from 'vitest';
import { Millrace } from '../../../../src/producer/client/millrace.ts';
import type { MillraceOptions } from '../../../../src/producer/client/options.ts';
import { eventSchema } from '../../../../src/shared/contract/event.ts';
import type { RedisConnection } from '../../../../src/shared/state/connect.ts';
import { bullPrefix, keysFor, type Keys } from '../../../../src/shared/state/keys.ts';
import { testPrefix, testRedis } from '../../../support/redis.ts';

/** A client with a world of its own: a fresh prefix, a direct connection and the keys to look behind it. */
export interface ClientWorld {
  readonly mill: Millrace;
  readonly prefix: string;
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** Key of a BullMQ job, or of one of the queue's own lists and sets. */
  readonly bull: (queue: string, rest: string) => string;
}

/** What tests get for a client over Redis: itself, or in the suites of the contract one over HTTP to a producer that has it. */
export const worldForm: { of: (mill: Millrace, prefix: string) => Promise<Millrace> } = { of: async (mill) => mill };

export async function clientWorld(options: Partial<MillraceOptions> = {}): Promise<ClientWorld> {
  const prefix = options.prefix ?? testPrefix();
  const mill = new Millrace({ redis: inject('redisUrl'), ...options, prefix });
  onTestFinished(() => mill.close());
  const shown = await worldForm.of(mill, prefix);
  const redis = await testRedis('work', inject('redisUrl'));
  const bull = (queue: string, rest: string) => `${bullPrefix(prefix, false)}:${queue}:${rest}`;
  return { mill: shown, prefix, redis, keys: keysFor(prefix), bull };
}

/** Throws when an event does not have its documented form. */
export function checkEvent(json: string): void {
  eventSchema.parse(JSON.parse(json));
}

/** A request as short as it can be. */
export const request = { agent: 'support', input: 'Where is order 7?' };

/** The code of the error that a call throws. */
export async function codeOf(call: Promise<unknown>): Promise<string> {
  const error: unknown = await call.then(
    (value) => new Error(`did not throw but gave ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown,
  );
  return (error as { code?: string }).code ?? String(error);
}
