import { z } from 'zod';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import type { RunExport } from '../../shared/contract/archive/run-export.ts';
import { defineTool } from '../../worker/tools/define.ts';
import { grantsOf, handoffPrefix, isFreeForServers, isReservedName, safeName } from '../../worker/tools/names.ts';
import type { Tool } from '../../worker/tools/tool.ts';
import { allChildren, recordedToolNames } from './recorded-run.ts';

/** By server: the names that its tools have there. */
type Offers = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * The tools of MCP servers that a recorded run called: what else the servers offered is not in an export. An export does not say
 * either which of several servers a tool is of, where it was called by its own name.
 */
export class ServerTools {
  /** By agent: what its models called. */
  readonly #called = new Map<string, Set<string>>();
  /** Tools of the recorded agents themselves: one that is gone is of no server. */
  readonly #own: ReadonlySet<string>;
  readonly #ambiguous = new Map<string, readonly string[]>();

  constructor(recorded: RunExport) {
    const runs = [recorded, ...allChildren(recorded)];
    this.#own = new Set(runs.flatMap(({ agent }) => recordedToolNames(agent)));
    for (const { agent, calls } of runs.flatMap(({ steps }) => steps.steps)) {
      const names = this.#called.get(agent) ?? new Set();
      this.#called.set(agent, names);
      for (const { toolName, childRunId } of calls) if (childRunId === undefined) names.add(toolName);
    }
  }

  /** Those of a server, as an agent is offered them that has `own` tools beside. */
  of(server: string, agent: AgentDefinition, own: ReadonlySet<string>): readonly Tool[] {
    return [...(this.#offersFor(agent, own).get(server) ?? [])].map((name) =>
      defineTool({
        name,
        description: 'Of an MCP server.',
        inputSchema: z.looseObject({}),
        effect: 'read',
        execute: () => undefined,
      }),
    );
  }

  notes(): string[] {
    return [...this.#ambiguous].map(
      ([name, servers]) =>
        `the export does not say which of the MCP servers ${servers.join(', ')} has the tool ${name}: it is taken for one of ${servers[0]}`,
    );
  }

  #offersFor(agent: AgentDefinition, own: ReadonlySet<string>): Offers {
    const offers = new Map<string, Set<string>>([...grantsOf(agent).keys()].map((server) => [server, new Set()]));
    const isOfServer = (name: string) =>
      name === safeName(name) &&
      !own.has(name) &&
      !this.#own.has(name) &&
      !Object.hasOwn(agent.agentTools, name) &&
      !isReservedName(name) &&
      !name.startsWith(handoffPrefix);
    const called = [...(this.#called.get(agent.id) ?? [])].filter(isOfServer);
    for (const name of called.filter(isFreeForServers)) this.#offerPlain(name, agent, offers);
    for (const name of called) this.#offerPrefixed(name, agent, { offers, own });
    return offers;
  }

  #offerPlain(name: string, agent: AgentDefinition, offers: ReadonlyMap<string, Set<string>>): void {
    const servers = granting(name, agent);
    const [first] = servers;
    if (first === undefined) return;
    offers.get(first)?.add(name);
    if (servers.length > 1) this.#ambiguous.set(name, servers);
  }

  /** It has the name of its server in front because another tool had its own name: one of the agent, or of a server before. */
  #offerPrefixed(
    name: string,
    agent: AgentDefinition,
    { offers, own }: { readonly offers: ReadonlyMap<string, Set<string>>; readonly own: ReadonlySet<string> },
  ): void {
    const server = [...offers.keys()].find((one) => name.startsWith(`${one}__`));
    if (server === undefined) return;
    const bare = name.slice(server.length + 2);
    if (bare === '' || bare.includes('__')) return;
    offers.get(server)?.add(bare);
    if (own.has(bare) || !isFreeForServers(bare)) return;
    const servers = [...offers.keys()];
    const before = granting(bare, agent).find((one) => servers.indexOf(one) < servers.indexOf(server));
    if (before === undefined) return;
    offers.get(before)?.add(bare);
    this.#ambiguous.delete(bare);
  }
}

/** The servers of which an agent may use a tool of this name: those that it grants by the name come first. */
function granting(name: string, agent: AgentDefinition): string[] {
  const grants = [...grantsOf(agent)];
  const named = grants.flatMap(([server, granted]) => (granted !== 'all' && granted.has(name) ? [server] : []));
  return [...named, ...grants.flatMap(([server, granted]) => (granted === 'all' ? [server] : []))];
}
