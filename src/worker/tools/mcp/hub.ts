import { createHash } from 'node:crypto';
import type { AgentDefinition } from '../../../shared/contract/agent/agent.ts';
import { canonicalJson } from '../../../shared/base/json.ts';
import { RunError } from '../../../shared/base/errors.ts';
import type { McpServer } from '../../../shared/contract/agent/mcp.ts';
import type { ToolPins } from '../../../shared/state/pins/tool-pins.ts';
import type { OpenedTools } from '../source.ts';
import { ArgumentChecks } from '../../../shared/base/argument-checks.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import { grantsOf, type ServerGrant } from '../names.ts';
import { ServerGone } from './link.ts';
import { missingTools, openedTools, type OpenedServer } from './opened.ts';
import { connectionPool, type Lease } from './pool.ts';
import { RunResources } from './resources.ts';
import { namedIn } from './result.ts';
import { ServerPins, type ChangedTools } from './server-pins.ts';
import { resolveServer, unusable } from './values.ts';

export interface McpHubOptions extends Omit<ConnectionOptions, 'name' | 'server' | 'resolved'> {
  readonly secrets: { get(name: string): string | undefined };
  /**
   * How long a connection to an HTTP server outlives the last run that used it, in milliseconds. 0: not at all. Default
   * 300,000.
   */
  readonly idleMs?: number | undefined;
}

/** The agent as far as its servers are concerned. */
export type McpAgent = Pick<AgentDefinition, 'id' | 'tools' | 'mcpServers'>;

export interface McpRun {
  readonly runId: string;
  readonly tenant: string;
  /**
   * Contents of the results of MCP tools that the run has already, from its journal: what they have named can be read from
   * this worker too.
   */
  readonly results?: readonly string[];
  /** What the tools of servers were at their first use. Absent: servers with `pin` cannot be used. */
  readonly pins?: ToolPins | undefined;
  /** Called when a server with `pin` has other tools than were accepted. */
  readonly onToolsChanged?: ((changed: ChangedTools) => void) | undefined;
}

const defaultIdleMs = 300_000;

/**
 * The MCP servers of a worker. A server over stdio is a process for each run; one over HTTP is a connection that the runs of
 * a tenant share as long as address and headers are the same.
 */
export class McpHub implements AsyncDisposable {
  readonly #options: McpHubOptions;
  readonly #pool: ReturnType<typeof connectionPool>;
  readonly #checks = new ArgumentChecks();
  /** Connections to processes. */
  readonly #processes = new Set<Connection>();
  #isClosed = false;

  constructor(options: McpHubOptions) {
    this.#options = options;
    this.#pool = connectionPool(options.idleMs ?? defaultIdleMs, options.clock);
  }

  /**
   * Opens the servers that an agent's grants name. Throws `mcp_unavailable` for one that is required and cannot be reached,
   * `agent_manifest_invalid` for a grant of a server that is not defined, `validation` for one of a tool that a required
   * server does not have, and the signal's reason. Nothing stays open then.
   */
  async open(agent: McpAgent, run: McpRun, signal: AbortSignal): Promise<OpenedTools> {
    if (this.#isClosed) throw new RunError('mcp_unavailable', 'this worker is stopping');
    signal.throwIfAborted();
    const resources = new RunResources();
    const wanted = wantedBy(agent, resources);
    const opened = await Promise.allSettled(wanted.map((one) => this.#openOne(one, run, signal)));
    const servers = opened.flatMap((one) => (one.status === 'fulfilled' && one.value ? [one.value] : []));
    const tools = openedTools(servers);
    const failed = opened.find((one) => one.status === 'rejected');
    if (failed) {
      await tools[Symbol.asyncDispose]();
      throw failed.reason;
    }
    for (const { server, handle } of namedIn(run.results ?? [])) {
      const source = servers.find(({ name }) => name === server)?.connection;
      if (source) resources.name(handle, server, source);
    }
    return tools;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    const closing = [...this.#processes].map((connection) => connection.close());
    await Promise.all([this.#pool[Symbol.asyncDispose](), ...closing]);
  }

  /** Opens one server. Undefined for an optional one that cannot be reached. */
  async #openOne(wanted: Wanted, run: McpRun, signal: AbortSignal): Promise<OpenedServer | undefined> {
    const { clock, log } = this.#options;
    const { name, server, grant, resources } = wanted;
    let lease: Lease | undefined;
    try {
      lease = this.#lease(name, server, run.tenant);
      const { connection, release } = lease;
      await connection.open(signal);
      this.#checkGrant(wanted, connection, run.runId);
      const pins = this.#pins(wanted, run, connection);
      await pins?.compare(signal);
      const definition = digestOf(server);
      return {
        name,
        server,
        definition,
        grant,
        connection,
        pins,
        resources,
        checks: this.#checks,
        clock,
        log,
        release,
      };
    } catch (error) {
      await lease?.release();
      signal.throwIfAborted();
      const failure = error instanceof ServerGone ? unusable(name, error.message, error) : error;
      if (server.required || !(failure instanceof RunError) || failure.code !== 'mcp_unavailable') throw failure;
      log.warn({ runId: run.runId, server: name, reason: failure.message }, 'an optional mcp server is not there');
      return undefined;
    }
  }

  #pins({ name, server }: Wanted, { tenant, pins, onToolsChanged }: McpRun, connection: Connection) {
    const { pin } = server;
    if (pin === 'off') return undefined;
    if (!pins)
      throw new RunError('invalid_config', `MCP server ${name}: nothing here keeps what \`pin\` compares with`);
    const { redactor, clock, log } = this.#options;
    const onChanged = (changed: ChangedTools) => onToolsChanged?.(changed);
    return new ServerPins({ name, server, pin, tenant, store: pins, connection, redactor, clock, log, onChanged });
  }

  /** Acquires a process of its own, or a part of a shared connection. */
  #lease(name: string, server: McpServer, tenant: string): Lease {
    const resolved = resolveServer(name, server, this.#options.secrets);
    const { endpoint } = resolved;
    this.#options.redactor.learn(resolved.secrets);
    const connect = () => new Connection({ ...this.#options, name, server, resolved });
    if (endpoint.kind === 'http')
      return this.#pool.acquire(digestOf([tenant, endpoint.address, server.connectTimeoutMs]), connect);
    const connection = connect();
    this.#processes.add(connection);
    return {
      connection,
      release: async () => {
        await connection.close();
        this.#processes.delete(connection);
      },
    };
  }

  /** Throws `validation` where a required server lacks a tool of the grant, and logs it of an optional one. */
  #checkGrant({ name, server, grant }: Wanted, connection: Connection, runId: string): void {
    const missing = missingTools({ connection, grant });
    if (missing.length === 0) return;
    const known = connection.tools.map((tool) => tool.name).join(', ') || 'none';
    const problem = `MCP server ${name} has no tool ${missing.join(', ')}; known are ${known}`;
    if (server.required) throw new RunError('validation', problem);
    this.#options.log.warn({ runId, server: name, missing }, 'an optional mcp server lacks tools');
  }
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('base64url');
}

interface Wanted {
  readonly name: string;
  readonly server: McpServer;
  readonly grant: ServerGrant;
  readonly resources: RunResources;
}

function wantedBy(agent: McpAgent, resources: RunResources): Wanted[] {
  return [...grantsOf(agent)].map(([name, grant]) => {
    const server = Object.hasOwn(agent.mcpServers, name) ? agent.mcpServers[name] : undefined;
    if (server) return { name, server, grant, resources };
    const known = Object.keys(agent.mcpServers).join(', ') || 'none';
    throw new RunError(
      'agent_manifest_invalid',
      `agent ${agent.id}: there is no MCP server ${name}; known are ${known}`,
    );
  });
}
