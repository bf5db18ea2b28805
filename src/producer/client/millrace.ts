import { RunError } from '../../shared/base/errors.ts';
import { MillraceClient } from './facade.ts';
import type { Operations } from './operations.ts';
import type { MillraceOptions } from './options.ts';
import { remoteFromSurroundings } from './own-environment.ts';
import { openRedis } from './redis-operations.ts';
import { openRemote } from './remote/operations.ts';
import type { RemoteOptions } from './remote/options.ts';

/**
 * The producer side of Millrace: accepts runs, reads them, follows and cancels them. Over Redis, or over HTTP where `url` or
 * `MILLRACE_URL` names a producer.
 *
 * Every method throws `RunError` with a code of the error table, and `queue_unavailable` within 5 seconds while Redis is
 * away. A run of another tenant is `run_not_found`. The constructor connects in the background and never throws for an
 * unreachable Redis.
 *
 * @example
 * await using mill = new Millrace(); // MILLRACE_URL, else REDIS_URL, else the `millrace dev` of this folder
 * const run = await mill.enqueue({ agent: 'support', input: 'Where is order 7?' });
 * for await (const event of run.events()) console.log(event.type);
 * const { text, costMicrocents } = await run.result();
 */
export class Millrace extends MillraceClient {
  /** Throws `invalid_config` for a URL, a key, a prefix, a tenant or a file of a wrong form, and for options of both forms together. */
  constructor(options: MillraceOptions | RemoteOptions = {}) {
    super(open(options));
  }
}

const remoteNames: ReadonlySet<string> = new Set([
  'url',
  'apiKey',
  'fetch',
  'onError',
] satisfies (keyof RemoteOptions)[]);

/** `MILLRACE_URL` counts where nothing is said about Redis. */
function open(options: MillraceOptions | RemoteOptions): Operations {
  const given = Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  const ofRedis = given.filter((name) => !remoteNames.has(name));
  const surroundings = ofRedis.length === 0 && !given.includes('url') ? remoteFromSurroundings() : undefined;
  const remote = { ...surroundings, ...options };
  if (!('url' in remote) || remote.url === undefined) {
    const stray = given.find((name) => name !== 'onError' && remoteNames.has(name));
    if (stray !== undefined)
      throw new RunError('invalid_config', `${stray} is about HTTP and needs url, or MILLRACE_URL`);
    return openRedis(options);
  }
  const [wrong] = ofRedis;
  if (wrong === undefined) return openRemote(remote as RemoteOptions);
  throw new RunError('invalid_config', `${wrong} is an option for Redis and url one for HTTP: give one of them`);
}
