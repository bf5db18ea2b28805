import { createHash, randomBytes } from 'node:crypto';
import type { ReachedKeys } from './keys.ts';

/** A working day with its evening. */
export const sessionTtlS = 12 * 3_600;

/**
 * Who logged in to the console. A session is a random id that only the browser has; Redis knows its hash, which key
 * opened it, and forgets it after twelve hours. It may do what that key may do, for as long as the producer knows the key.
 */
export class ConsoleSessions {
  readonly #at: ReachedKeys;

  constructor(at: ReachedKeys) {
    this.#at = at;
  }

  /** Answers the id of a new session for the key with this SHA-256. */
  async open(keySha256: string): Promise<string> {
    const id = randomBytes(32).toString('base64url');
    await this.#at.reach((redis) => redis.set(this.#key(id), keySha256, 'EX', sessionTtlS));
    return id;
  }

  /** The SHA-256 of the key that opened the session. Undefined: there is no such session, or none any more. */
  async keyOf(id: string): Promise<string | undefined> {
    return (await this.#at.reach((redis) => redis.get(this.#key(id)))) ?? undefined;
  }

  async close(id: string): Promise<void> {
    await this.#at.reach((redis) => redis.del(this.#key(id)));
  }

  #key(id: string): string {
    return this.#at.keys.session(createHash('sha256').update(id).digest('hex'));
  }
}
