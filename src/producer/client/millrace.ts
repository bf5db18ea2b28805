import { MillraceClient } from './facade.ts';
import type { MillraceOptions } from './options.ts';
import { openRedis } from './redis-operations.ts';

/**
 * The producer side of Millrace: accepts runs, reads them, follows and cancels them.
 *
 * Every method throws `RunError` with a code of the error table, and `queue_unavailable` within 5 seconds while Redis is
 * away. A run of another tenant is `run_not_found`. The constructor connects in the background and never throws for an
 * unreachable Redis.
 *
 * @example
 * await using mill = new Millrace(); // REDIS_URL, or the `millrace dev` of this folder
 * const run = await mill.enqueue({ agent: 'support', input: 'Where is order 7?' });
 * for await (const event of run.events()) console.log(event.type);
 * const { text, costMicrocents } = await run.result();
 */
export class Millrace extends MillraceClient {
  /** Throws `invalid_config` for a URL, prefix, tenant or file of a wrong form. */
  constructor(options: MillraceOptions = {}) {
    super(openRedis(options));
  }
}
