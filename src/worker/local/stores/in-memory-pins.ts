import type { Clock } from '../../../shared/base/clock.ts';
import type { DescribedTool, PinnedServer, PinnedTool } from '../../../shared/contract/mcp-pins.ts';
import {
  maxListedServers,
  maxPins,
  pinsTtlMs,
  type PinVerdict,
  type ToolPins,
} from '../../../shared/state/pins/tool-pins.ts';

interface Pins {
  readonly server: PinnedServer;
  readonly usedMs: number;
  readonly tools: Map<string, PinnedTool>;
}

/** Pins for as long as the process lives. */
export function inMemoryToolPins(clock: Clock): ToolPins {
  const tenants = new Map<string, Map<string, Pins>>();
  const pinsOf = (tenant: string, id: string) => {
    const found = tenants.get(tenant)?.get(id);
    return found && found.usedMs > clock.now() - pinsTtlMs ? found : undefined;
  };
  return {
    async check(tenant, server, offered) {
      const known = pinsOf(tenant, server.id);
      const tools =
        known?.tools ??
        new Map<string, PinnedTool>(offered.map((one) => [one.tool, { tool: one.tool, accepted: plain(one) }]));
      const servers = tenants.get(tenant) ?? new Map<string, Pins>();
      tenants.set(tenant, servers.set(server.id, { server, usedMs: clock.now(), tools }));
      return offered.map((one): PinVerdict => {
        const { tool } = one;
        const said = plain(one);
        const pin = tools.get(tool);
        const isAccepted = pin?.accepted?.digest === said.digest;
        if (isAccepted) tools.set(tool, { ...pin, tool, changed: undefined });
        else if (pin?.changed?.digest !== said.digest && (pin?.changed || fieldsOf(tools) < maxPins))
          tools.set(tool, { ...pin, tool, changed: said });
        return isAccepted ? { kind: 'accepted' } : { kind: 'changed', before: pin?.accepted && plain(pin.accepted) };
      });
    },
    async accept(tenant, serverId, asked, by) {
      const tools = pinsOf(tenant, serverId)?.tools;
      return (
        tools &&
        asked.flatMap(({ tool, digest, said }) => {
          const pin = tools.get(tool);
          if (digest !== undefined && pin?.accepted?.digest === digest) return [tool];
          const wanted = said ?? pin?.changed;
          if (!wanted || (digest !== undefined && wanted.digest !== digest)) return [];
          const acceptedAt = new Date(clock.now()).toISOString();
          tools.set(tool, { tool, accepted: { ...plain(wanted), by, acceptedAt } });
          return [tool];
        })
      );
    },
    async list(tenant) {
      const all = [...(tenants.get(tenant) ?? new Map<string, Pins>()).values()];
      return all
        .filter(({ server }) => pinsOf(tenant, server.id))
        .toSorted((a, b) => b.usedMs - a.usedMs)
        .slice(0, maxListedServers)
        .map(({ server, usedMs, tools }) => ({
          ...server,
          usedAt: new Date(usedMs).toISOString(),
          tools: [...tools.values()].toSorted((a, b) => (a.tool < b.tool ? -1 : 1)),
        }));
    },
  };
}

/** As Redis has them: what the server is, and each side of each tool. */
function fieldsOf(tools: ReadonlyMap<string, PinnedTool>): number {
  return [...tools.values()].reduce((sum, { accepted, changed }) => sum + (accepted ? 1 : 0) + (changed ? 1 : 0), 1);
}

function plain({ digest, parts, description, inputSchema, seenAt }: DescribedTool): DescribedTool {
  return { digest, parts, description, inputSchema, seenAt };
}
