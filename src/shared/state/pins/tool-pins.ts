import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { jsonText } from '../../base/json.ts';
import {
  describedTool,
  pinnedServer,
  type DescribedTool,
  type PinnedServer,
  type PinnedTool,
  type ServerPins,
} from '../../contract/mcp-pins.ts';
import { named } from '../errors.ts';
import type { KeySpace } from '../keys.ts';
import { loadScript, runScript } from '../script.ts';

/** Pins are kept for so long after the last use of their server, in milliseconds: 90 days. */
export const pinsTtlMs = 90 * 86_400_000;
/** Of one server, accepted and changed ones together. */
export const maxPins = 2_048;
/** Servers that are listed at once, the last used first. */
export const maxListedServers = 200;

/** A tool that a server has, by the server's name for it. */
export interface OfferedTool extends DescribedTool {
  readonly tool: string;
}

/** `changed`: it is not what was accepted, or it was not there then. */
export type PinVerdict =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'changed'; readonly before: DescribedTool | undefined };

/** A change that is to be accepted. */
export interface AcceptedTool {
  readonly tool: string;
  /** Only this one. Absent: whatever the server said last. */
  readonly digest?: string | undefined;
  /** Absent: what a worker has seen of it is known here. */
  readonly said?: DescribedTool | undefined;
}

/**
 * What the tools of MCP servers were at the first use of their server, by tenant: a server cannot change them unseen. Kept
 * for 90 days after the last use. All forms pass `test/contract/tool-pins.ts`.
 */
export interface ToolPins {
  /**
   * Accepts all tools at the first use of a server, and compares them ever after: a verdict for each, in their order. Of two
   * workers at the first use one accepts, the other compares. What has changed is kept for those who decide about it.
   */
  check(tenant: string, server: PinnedServer, tools: readonly OfferedTool[]): Promise<readonly PinVerdict[]>;
  /** Accepts changes. Answers the tools that are accepted now; undefined for a server without pins. */
  accept(tenant: string, serverId: string, tools: readonly AcceptedTool[], by: string): Promise<string[] | undefined>;
  /** The servers of a tenant, the last used first, at most 200. */
  list(tenant: string): Promise<readonly ServerPins[]>;
}

const checkScript = loadScript(import.meta.url, './check-pins.lua');
const acceptScript = loadScript(import.meta.url, './accept-pins.lua');
const checkReply = z.array(z.union([z.literal(''), z.tuple([z.string()])]));
const acceptReply = z.union([z.literal(0), z.array(z.string())]);
const acceptance = z.object({ by: z.string(), acceptedAt: z.string() });

const digestChars = 64;

/** Throws `queue_unavailable` while Redis is away, and what `redisError` makes of its other errors. */
export function redisToolPins({ redis, keys, clock }: KeySpace & { readonly clock: Clock }): ToolPins {
  return {
    async check(tenant, server, tools) {
      const own = [keys.pinnedServers(tenant), keys.pins(tenant, server.id)];
      const said = tools.flatMap((offered) => [offered.tool, written(offered)]);
      const args = [clock.now(), pinsTtlMs, server.id, jsonText(server), maxPins, ...said];
      const doing = `pins of MCP server ${server.server}`;
      return checkReply.parse(await runScript(redis, checkScript, own, args, { doing })).map((found): PinVerdict => {
        if (found === '') return { kind: 'accepted' };
        return { kind: 'changed', before: found[0] === '' ? undefined : read(found[0]) };
      });
    },
    async accept(tenant, serverId, tools, by) {
      const who = jsonText({ by, acceptedAt: new Date(clock.now()).toISOString() });
      const asked = tools.flatMap(({ tool, digest = '', said }) => [tool, digest, said ? written(said) : '']);
      const doing = `pins of MCP server ${serverId}`;
      const reply = await runScript(redis, acceptScript, [keys.pins(tenant, serverId)], [who, ...asked], { doing });
      const accepted = acceptReply.parse(reply);
      return accepted === 0 ? undefined : accepted;
    },
    async list(tenant) {
      const listed = async () => {
        const used = await redis.zrevrange(keys.pinnedServers(tenant), 0, maxListedServers - 1, 'WITHSCORES');
        const ids = used.filter((_, index) => index % 2 === 0);
        const hashes = await Promise.all(ids.map(async (id) => await redis.hgetall(keys.pins(tenant, id))));
        // One whose pins have ended is there until its next use.
        return hashes.flatMap((fields, index) => serverOf(fields, Number(used[2 * index + 1])));
      };
      return await named('list of MCP pins', listed());
    },
  };
}

function written({ digest, parts, description, inputSchema, seenAt }: DescribedTool): string {
  return digest + jsonText({ parts, description, inputSchema, seenAt });
}

function read(text: string): DescribedTool {
  const facts = JSON.parse(text.slice(digestChars)) as object;
  return describedTool.parse({ ...facts, digest: text.slice(0, digestChars) });
}

function serverOf(fields: Readonly<Record<string, string>>, usedMs: number): ServerPins[] {
  const { '#': about } = fields;
  if (about === undefined) return [];
  const names = Object.keys(fields).flatMap((field) => (/^[pc]:/.test(field) ? [field.slice(2)] : []));
  const tools = [...new Set(names)].sort().map((tool): PinnedTool => {
    const { [`p:${tool}`]: accepted, [`c:${tool}`]: changed, [`a:${tool}`]: by } = fields;
    return {
      tool,
      accepted:
        accepted === undefined
          ? undefined
          : { ...read(accepted), ...(by !== undefined && acceptance.parse(JSON.parse(by))) },
      changed: changed === undefined ? undefined : read(changed),
    };
  });
  return [{ ...pinnedServer.parse(JSON.parse(about)), usedAt: new Date(usedMs).toISOString(), tools }];
}
