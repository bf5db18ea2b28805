import type { Clock } from '../../../shared/base/clock.ts';
import { unlessAborted } from '../../../shared/base/deadline.ts';
import { sha256 } from '../../../shared/base/ids.ts';
import { canonicalJson } from '../../../shared/base/json.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { clip } from '../../../shared/base/text.ts';
import type { McpServer } from '../../../shared/contract/agent/mcp.ts';
import { changedParts, type PinnedServer, type ToolChange, type ToolPart } from '../../../shared/contract/mcp-pins.ts';
import type { OfferedTool, ToolPins } from '../../../shared/state/pins/tool-pins.ts';
import type { Connection } from './connection.ts';
import { describedTool } from './described.ts';
import type { ListedTool } from './list.ts';
import { isHttp } from './values.ts';

/** A tool of a server as this run has it. */
export interface OfferedByServer {
  readonly listed: ListedTool;
  /** What its server has changed and no person has accepted. Absent: it is as it was accepted, or it has no pin. */
  readonly change?: ToolChange | undefined;
}

/** Tools that are not what was accepted. */
export interface ChangedTools {
  readonly server: string;
  readonly pin: 'refuse' | 'confirm';
  readonly tools: readonly { readonly tool: string; readonly isNew: boolean; readonly parts: ToolPart[] }[];
  readonly more?: number | undefined;
}

export interface ServerPinsOptions {
  readonly name: string;
  readonly server: McpServer;
  readonly pin: 'refuse' | 'confirm';
  readonly tenant: string;
  readonly store: ToolPins;
  readonly connection: Pick<Connection, 'tools'>;
  readonly redactor: Pick<Redactor, 'text'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  /** Called once for each change. */
  readonly onChanged: (changed: ChangedTools) => void;
}

const maxNamed = 32;
const maxNameChars = 128;
const maxTargetChars = 500;

/**
 * The tools of one server, compared with what they were at its first use. A list that has not been compared yet is not
 * offered: until then the one before it counts.
 */
export class ServerPins {
  readonly #options: ServerPinsOptions;
  readonly #identity: PinnedServer;
  readonly #reported = new Set<string>();
  #compared: readonly ListedTool[] | undefined;
  #offered: readonly OfferedByServer[] = [];
  #comparing: Promise<void> | undefined;

  constructor(options: ServerPinsOptions) {
    this.#options = options;
    this.#identity = identityOf(options.name, options.server, options.redactor);
  }

  get pin(): 'refuse' | 'confirm' {
    return this.#options.pin;
  }

  /** As they were compared last. Another list of the server is compared meanwhile. */
  get offered(): readonly OfferedByServer[] {
    const { connection, log, name } = this.#options;
    if (connection.tools !== this.#compared)
      this.compare().catch((err: unknown) =>
        log.warn({ err, server: name }, 'the tools of an mcp server are not compared'),
      );
    return this.#offered;
  }

  /** Compares what the server lists now. Rejects when what was accepted cannot be read. */
  async compare(signal?: AbortSignal): Promise<void> {
    while (this.#options.connection.tools !== this.#compared) {
      this.#comparing ??= this.#compareOnce().finally(() => (this.#comparing = undefined));
      await (signal ? unlessAborted(this.#comparing, signal) : this.#comparing);
    }
  }

  /** What has changed about a tool, by what the server says now and what has been accepted by now. */
  async changed(tool: string, signal: AbortSignal): Promise<ToolChange | undefined> {
    await this.compare(signal);
    const found = this.#offered.find(({ listed }) => listed.name === tool);
    if (!found?.change) return undefined;
    // An operator, or another run, may have accepted it since.
    this.#compared = undefined;
    await this.compare(signal);
    return this.#offered.find(({ listed }) => listed.name === tool)?.change;
  }

  async accept({ tool, digest }: ToolChange, by: string): Promise<void> {
    const { store, tenant } = this.#options;
    const said = this.#described().find((one) => one.tool === tool && one.digest === digest);
    await store.accept(tenant, this.#identity.id, [{ tool, digest, said }], by);
    this.#compared = undefined;
    await this.compare();
  }

  #described(listed = this.#options.connection.tools): OfferedTool[] {
    const { redactor, clock } = this.#options;
    const now = clock.now();
    return listed.map((one) => ({ tool: one.name, ...describedTool(one, redactor, now) }));
  }

  async #compareOnce(): Promise<void> {
    const { store, tenant, connection, name } = this.#options;
    const listed = connection.tools;
    const tools = this.#described(listed);
    const verdicts = await store.check(tenant, this.#identity, tools);
    const offered = listed.map((one, index): OfferedByServer => {
      const [verdict, after] = [verdicts[index], tools[index]];
      if (!after || verdict?.kind === 'accepted') return { listed: one };
      const before = verdict?.before;
      const shown = before && { description: before.description, inputSchema: before.inputSchema };
      const { description, inputSchema, digest } = after;
      const parts = changedParts(before, after);
      return {
        listed: one,
        change: { server: name, tool: one.name, parts, before: shown, after: { description, inputSchema }, digest },
      };
    });
    this.#offered = offered;
    this.#compared = listed;
    this.#report(offered.flatMap(({ change }) => change ?? []));
  }

  #report(changes: readonly ToolChange[]): void {
    const { log, onChanged, pin, name: server } = this.#options;
    const unknown = changes.filter(({ digest }) => !this.#reported.has(digest));
    if (unknown.length === 0) return;
    for (const { digest } of unknown) this.#reported.add(digest);
    const tools = unknown
      .slice(0, maxNamed)
      .map(({ tool, before, parts }) => ({ tool: clip(tool, maxNameChars), isNew: before === undefined, parts }));
    const more = unknown.length > maxNamed ? unknown.length - maxNamed : undefined;
    log.warn({ server, pin, tools: tools.map(({ tool }) => tool), more }, 'an mcp server has changed its tools');
    onChanged({ server, pin, tools, more });
  }
}

/** What says which server this is: not its name, and nothing that may change without it becoming another one. */
function identityOf(name: string, server: McpServer, redactor: Pick<Redactor, 'text'>): PinnedServer {
  const way = isHttp(server) ? ['http', server.url] : ['stdio', server.command, server.args, server.cwd ?? null];
  const target = isHttp(server) ? withoutQuery(server.url) : [server.command, ...server.args].join(' ');
  return {
    id: sha256(canonicalJson(way)).slice(0, 32),
    server: name,
    target: clip(redactor.text(target), maxTargetChars),
  };
}

function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}
