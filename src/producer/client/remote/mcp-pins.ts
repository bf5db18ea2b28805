import { RunError } from '../../../shared/base/run-error.ts';
import type { ServerPins } from '../../../shared/contract/mcp-pins.ts';
import type { AcceptedPins, AcceptPinsOptions, AcceptPinsRequest, McpPins } from '../mcp-pins.ts';
import { at, type Link } from './link.ts';

/** The pins over HTTP. */
export class RemoteMcpPins implements McpPins {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  async list(): Promise<readonly ServerPins[]> {
    const { servers } = await this.#link.json<{ readonly servers: readonly ServerPins[] }>({ path: '/v1/mcp/pins' });
    return servers;
  }

  async accept(server: string, request: AcceptPinsRequest = {}, { by }: AcceptPinsOptions = {}): Promise<AcceptedPins> {
    if (by !== undefined) throw new RunError('validation', 'by: over HTTP who accepts is the API key; leave `by` out');
    const path = at`/v1/mcp/pins/${server}/accept`;
    return await this.#link.json({ method: 'POST', path, body: { json: request } });
  }
}
