import type { Clock } from '../../../shared/base/clock.ts';
import type { Egress } from '../../../shared/egress/egress.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { McpServer } from '../../../shared/contract/agent/mcp.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { unlessAborted, within } from '../../../shared/base/deadline.ts';
import { floodGate, maxListReads, maxReconnects, reconnectWindowMs } from './limits.ts';
import { Link, ServerGone, SessionGone, type RequestOptions } from './link.ts';
import { readTools, type ListedTool } from './list.ts';
import type { ResolvedServer } from './values.ts';

export interface ConnectionOptions {
  readonly name: string;
  readonly server: McpServer;
  readonly resolved: ResolvedServer;
  /** What HTTP servers are reached through. Not closed here. */
  readonly egress: Pick<Egress, 'asFetch'>;
  /** Learns what servers are given. */
  readonly redactor: Redactor;
  readonly clock: Clock;
  /** Of this package, for the handshake with servers. */
  readonly version: string;
  readonly log: Log;
}

/** A server, connected as often as it takes. A lost connection is made anew with the next request. */
export class Connection {
  readonly #options: ConnectionOptions;
  readonly #mayReconnect;
  readonly #mayReadList;
  readonly #closing = new AbortController();
  /** Links that are on their way out, with their processes. */
  readonly #closings = new Set<Promise<void>>();
  #link: Link | undefined;
  #opening: Promise<Link> | undefined;
  #wasOpen = false;
  #tools: readonly ListedTool[] = [];
  #hasResources = false;
  #isStale = false;
  #reading: Promise<void> | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#mayReconnect = floodGate(maxReconnects, reconnectWindowMs, options.clock);
    this.#mayReadList = floodGate(maxListReads, reconnectWindowMs, options.clock);
  }

  /** Always the same list until the server has another one. */
  get tools(): readonly ListedTool[] {
    return this.#tools;
  }

  /** It answers `resources/read`. */
  get hasResources(): boolean {
    return this.#hasResources;
  }

  get pid(): number | undefined {
    return this.#link?.pid;
  }

  /** Connects and reads the list of tools. Throws a `ServerGone`, or the signal's reason. */
  async open(signal: AbortSignal): Promise<void> {
    await this.#ready(signal);
  }

  /**
   * Throws as `Link.request` does, but never a `SessionGone`: what a lost session refused is asked for once more where that
   * does no harm. A server that does not know the session any more may have acted all the same.
   */
  async request(
    method: 'tools/call' | 'resources/read',
    params: Record<string, unknown>,
    { mayRepeat, ...options }: RequestOptions & { readonly mayRepeat: boolean },
  ): Promise<Readonly<Record<string, unknown>>> {
    for (let again = true; ; again = false) {
      const link = mayRepeat ? await this.#ready(options.signal) : await this.#fresh(options.signal);
      try {
        return await link.request(method, params, options);
      } catch (error) {
        if (!(error instanceof SessionGone)) throw error;
        this.#drop(link);
        if (!again || !mayRepeat) throw new ServerGone(error.message, !mayRepeat, { cause: error });
      }
    }
  }

  /** Waits until a list that the server has announced as changed is read, or could not be. Never rejects. */
  async settled(signal: AbortSignal): Promise<void> {
    if (!this.#reading || signal.aborted) return;
    await unlessAborted(this.#reading, signal).catch(() => {});
  }

  /** A text of the server without the secrets of this process, those among them that it was given. */
  clean(text: string): string {
    return this.#options.redactor.secrets(text);
  }

  /** Never rejects. Requests afterwards fail. */
  async close(): Promise<void> {
    this.#closing.abort(new ServerGone('it was closed', false));
    if (this.#link) this.#drop(this.#link);
    await this.#opening?.catch(() => {});
    await Promise.all(this.#closings);
  }

  async #ready(signal: AbortSignal): Promise<Link> {
    signal.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    if (this.#link && !this.#link.isGone) return this.#link;
    if (!this.#opening) {
      if (this.#wasOpen && !this.#mayReconnect())
        throw new ServerGone('it was lost too often: it is left alone for a minute', false);
      this.#opening = this.#connect().finally(() => (this.#opening = undefined));
      this.#opening.catch(() => {});
    }
    return await unlessAborted(this.#opening, signal);
  }

  /** A link whose session the server knew a moment ago: a call that is made only once must not be the one to find out. */
  async #fresh(signal: AbortSignal): Promise<Link> {
    const link = await this.#ready(signal);
    if (await link.isKnown(signal)) return link;
    this.#drop(link);
    return await this.#ready(signal);
  }

  /** Only its own signal ends it: the other waiters for the same connection must not lose it. */
  async #connect(): Promise<Link> {
    const { name, server, resolved, egress, clock, version, log } = this.#options;
    const link: Link = new Link({
      endpoint: resolved.endpoint,
      egress,
      clock,
      version,
      onListChanged: () => this.#listChanged(),
      onGone: () => this.#drop(link),
      onComplaint: (text) =>
        log.debug({ server: name, complaint: this.clean(text).slice(0, 500) }, 'an mcp server complains'),
    });
    const settled = await this.#inTime(async (signal) => {
      await link.connect(signal);
      this.#hasResources = link.hasResources;
      await this.#read(link, signal);
    });
    if (settled.kind === 'value' && !link.isGone) {
      this.#wasOpen = true;
      this.#link = link;
      return link;
    }
    await link.close();
    const complaint = this.clean(link.complaint).trim();
    if (complaint !== '') log.warn({ server: name, complaint: complaint.slice(-500) }, 'an mcp server did not start');
    this.#closing.signal.throwIfAborted();
    const cause = settled.kind === 'threw' ? settled.error : undefined;
    if (cause instanceof ServerGone) throw cause;
    const late = settled.kind === 'timeout' && `it did not answer within ${server.connectTimeoutMs} ms`;
    throw new ServerGone(late || 'it did not list its tools', false, { cause });
  }

  #inTime(work: (signal: AbortSignal) => Promise<void>) {
    const { server, clock } = this.#options;
    return within(server.connectTimeoutMs, work, clock, this.#closing.signal);
  }

  #drop(link: Link): void {
    if (this.#link === link) this.#link = undefined;
    const left = link.close().finally(() => this.#closings.delete(left));
    this.#closings.add(left);
  }

  /** One reading at a time; a server that keeps on changing its list is not followed without end. */
  #listChanged(): void {
    this.#isStale = true;
    if (this.#reading || !this.#link) return;
    this.#reading = this.#readAgain().finally(() => (this.#reading = undefined));
  }

  async #readAgain(): Promise<void> {
    const { name, log } = this.#options;
    while (this.#isStale && this.#link && this.#mayReadList()) {
      this.#isStale = false;
      const link = this.#link;
      const settled = await this.#inTime((signal) => this.#read(link, signal));
      if (settled.kind !== 'value') log.warn({ server: name }, 'the changed tools of an mcp server could not be read');
    }
  }

  async #read(link: Link, signal: AbortSignal): Promise<void> {
    const { name, log } = this.#options;
    const { tools, problems } = link.hasTools
      ? await readTools((params) => link.request('tools/list', params, { signal }))
      : { tools: [], problems: [] };
    this.#tools = tools;
    for (const problem of problems)
      log.warn({ server: name, problem: this.clean(problem) }, 'a tool of an mcp server is odd');
  }
}
