import { randomBytes } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { sha256 } from '../base/ids.ts';
import type { ApiKey } from '../contract/config.ts';
import type { ReachedKeys } from './keys.ts';
import { loadScript, runScript } from './script.ts';

/** A working day with its evening. */
export const sessionTtlS = 12 * 3_600;
/** One more closes the oldest. Each browser of everybody who has the key holds one. */
export const maxSessionsOfKey = 100;

const script = loadScript(import.meta.url, './open-session.lua');
/** Of the SHA-256 of its key, at the beginning of a session's id: enough to find the key, and what the audit log names it by. */
const keyDigits = 8;

/** How the id of a session looks: which key it may belong to, and what only the browser knows. */
export const sessionId = /^[0-9a-f]{8}\.[\w-]{43}$/;

type Key = Pick<ApiKey, 'sha256'>;

/**
 * Who logged in to the console. A session is a random id that only the browser has; Redis knows its hash, which key
 * opened it, and forgets it after twelve hours. It may do what that key may do, for as long as the producer knows the key.
 */
export class ConsoleSessions {
  readonly #at: ReachedKeys & { readonly clock: Clock };

  constructor(at: ReachedKeys & { readonly clock: Clock }) {
    this.#at = at;
  }

  /** Answers the id of a new session for the key with this SHA-256, and closes the oldest of too many. */
  async open(keySha256: string): Promise<string> {
    const { keys, clock, reach } = this.#at;
    const id = `${keySha256.slice(0, keyDigits)}.${randomBytes(32).toString('base64url')}`;
    const args = [sha256(id), clock.now(), sessionTtlS, maxSessionsOfKey];
    const doing = 'opening of a session';
    await reach((redis) => runScript(redis, script, [keys.sessions(keySha256)], args, { doing }));
    return id;
  }

  /** The one of these keys that opened the session. Undefined: none of them did, or the session is over. */
  async keyOf<K extends Key>(id: string, known: readonly K[]): Promise<K | undefined> {
    const { keys, clock, reach } = this.#at;
    for (const key of ownersOf(id, known)) {
      const end = await reach((redis) => redis.zscore(keys.sessions(key.sha256), sha256(id)));
      if (end !== null && Number(end) > clock.now()) return key;
    }
    return undefined;
  }

  async close(id: string, known: readonly Key[]): Promise<void> {
    const { keys, reach } = this.#at;
    for (const key of ownersOf(id, known)) await reach((redis) => redis.zrem(keys.sessions(key.sha256), sha256(id)));
  }
}

/** One key, unless two of them begin alike. */
function ownersOf<K extends Key>(id: string, known: readonly K[]): readonly K[] {
  return known.filter((key) => key.sha256.startsWith(id.slice(0, keyDigits)));
}
