import { MillraceClient } from '../facade.ts';
import { openRemote } from './operations.ts';
import type { RemoteOptions } from './options.ts';

/**
 * The client over HTTP: the same methods as beside Redis, with `fetch` and nothing else. Every method throws `RunError` with a code of
 * the error table, and `queue_unavailable` while no producer can be reached.
 *
 * @example
 * const mill = new Millrace({ url: 'https://agents.example.com', apiKey });
 * const run = await mill.enqueue({ agent: 'support', input: 'Where is order 7?' });
 * for await (const event of run.events()) console.log(event.type);
 */
export class Millrace extends MillraceClient {
  /** Throws `invalid_config` for a URL or a key of a wrong form. */
  constructor(options: RemoteOptions) {
    super(openRemote(options));
  }
}
