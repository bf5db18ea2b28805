import { z } from 'zod';
import { RunError } from '../../shared/base/errors.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { parseAs } from '../../shared/base/problems.ts';
import { thereIsNo } from '../../shared/base/nearest.ts';
import { serverPins, type PinnedTool, type ServerPins } from '../../shared/contract/mcp-pins.ts';
import { redisToolPins } from '../../shared/state/pins/tool-pins.ts';
import { reach, type Reached, type TenantClient } from './client-core.ts';

/** What is accepted of a server. */
export const acceptPinsRequest = z
  .strictObject({
    tool: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe('As the server calls it. Absent: every tool that has changed.'),
    digest: z
      .string()
      .regex(/^[0-9a-f]{64}$/, 'must be the digest of a change, as the list of pins has it')
      .optional()
      .describe('Only this change of the tool. Absent: what the server said last.'),
  })
  .refine(
    ({ tool, digest }) => digest === undefined || tool !== undefined,
    'a digest needs the tool that it belongs to',
  );
export type AcceptPinsRequest = Readonly<z.input<typeof acceptPinsRequest>>;

/** What was accepted, and the pins of the server since then. */
export const acceptedPins = z.object({ accepted: z.array(z.string()), pins: serverPins });
export type AcceptedPins = z.infer<typeof acceptedPins>;

export interface AcceptPinsOptions {
  /** Who accepts it. Default: `unknown`. */
  readonly by?: string;
}

/** What the tools of MCP servers were at their first use, and what the servers have changed since, for one tenant. */
export interface McpPins {
  /** The servers that agents use with `pin`, the last used first, at most 200. */
  list(): Promise<readonly ServerPins[]>;
  /**
   * Lets the runs of the tenant use what a server has changed, from their next step on. `server` is its id, or its name
   * where one server has it. Throws `not_found` for a server without pins and a tool that it does not have, and
   * `validation` for a name of several servers, and for a digest that is not that of the last change.
   */
  accept(server: string, request?: AcceptPinsRequest, options?: AcceptPinsOptions): Promise<AcceptedPins>;
}

/** The pins over Redis. */
export class RedisMcpPins implements McpPins {
  readonly #client: TenantClient;

  constructor(client: TenantClient) {
    this.#client = client;
  }

  async list(): Promise<readonly ServerPins[]> {
    return await reach(this.#client, async (at) => await pinsAt(at).list(at.tenant));
  }

  async accept(
    server: string,
    request: AcceptPinsRequest = {},
    { by = 'unknown' }: AcceptPinsOptions = {},
  ): Promise<AcceptedPins> {
    const { tool, digest } = parseAs(acceptPinsRequest, request, 'the request is not valid');
    return await reach(this.#client, async (at) => {
      const pins = pinsAt(at);
      const found = serverNamed(server, await pins.list(at.tenant));
      const asked = tool === undefined ? found.tools : [toolNamed(tool, found)];
      const changes = asked.flatMap(({ tool: name, changed }) =>
        changed ? [{ tool: name, digest: digest ?? changed.digest }] : [],
      );
      const accepted = (await pins.accept(at.tenant, found.id, changes, by)) ?? [];
      if (digest !== undefined && asked.some((one) => one.accepted?.digest !== digest) && accepted.length === 0)
        throw new RunError(
          'validation',
          `${server} says something else about ${tool ?? ''} by now: read its pins again`,
        );
      const now = (await pins.list(at.tenant)).find(({ id }) => id === found.id) ?? found;
      return { accepted, pins: now };
    });
  }
}

function pinsAt({ core, redis }: Reached) {
  return redisToolPins({ redis, keys: core.keys, clock: systemClock });
}

function serverNamed(name: string, all: readonly ServerPins[]): ServerPins {
  const [found, ...others] = all.filter(({ id, server }) => id === name || server === name);
  if (!found)
    throw new RunError('not_found', thereIsNo('MCP server with pins', name, new Set(all.map(({ server }) => server))));
  if (others.length === 0) return found;
  const ids = [found, ...others].map(({ id, target }) => `${id} (${target})`).join(', ');
  throw new RunError('validation', `${name} is the name of several servers; give one of their ids: ${ids}`);
}

function toolNamed(name: string, { server, tools }: ServerPins): PinnedTool {
  const found = tools.find(({ tool }) => tool === name);
  if (found) return found;
  throw new RunError(
    'not_found',
    `MCP server ${server}: ${thereIsNo(
      'tool',
      name,
      tools.map(({ tool }) => tool),
    )}`,
  );
}
