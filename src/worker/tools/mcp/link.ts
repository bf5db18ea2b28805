import { orLate } from '../../../shared/base/deadline.ts';
import { defined } from '../../../shared/base/collections.ts';
import {
  Client,
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
  type MessageExtraInfo,
  type Progress,
  type Transport,
} from '@modelcontextprotocol/client';
import { z } from 'zod';
import type { Clock } from '../../../shared/base/clock.ts';
import { cleanJson } from '../../../shared/base/text.ts';
import { EgressError } from '../../../shared/egress/egress-fetch.ts';
import type { Egress } from '../../../shared/egress/egress.ts';
import { floodGate, floodWindowMs, maxUnaskedMessages } from './limits.ts';
import { httpTransport } from './http.ts';
import { StdioTransport } from './stdio.ts';
import type { Endpoint } from './values.ts';

/** Deadlines are those of the callers' signals: the SDK only needs a number that never comes first. */
const neverMs = 2_000_000_000;
/** Stands in for an answer that got lost on its way. */
const lostCode = -32_000;
const lostMessage = 'the connection was lost';
const goodbyeMs = 1_000;
/** A server that has sent something within this time still knows the session. */
const freshMs = 5_000;

/** Results are read field by field: the schemas of the SDK would take seconds over one that a stranger made to be slow. */
const anyResult = z.custom<Readonly<Record<string, unknown>>>((value) => value !== null && typeof value === 'object');

/** A request that got no answer. */
export class ServerGone extends Error {
  /** The server may have acted on the request. */
  readonly mayHaveArrived: boolean;

  constructor(why: string, mayHaveArrived: boolean, options: ErrorOptions = {}) {
    super(why, options);
    this.name = 'ServerGone';
    this.mayHaveArrived = mayHaveArrived;
  }
}

/** The server does not know the session any more. */
export class SessionGone extends Error {}

/** The error that the server itself sent in place of a result. */
export class ServerRefusal extends Error {}

export interface RequestOptions {
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

export interface LinkOptions {
  readonly endpoint: Endpoint;
  readonly egress: Pick<Egress, 'asFetch'>;
  readonly clock: Clock;
  readonly version: string;
  onListChanged(): void;
  onGone(): void;
  /** For the log: what the server wrote about itself, and what the SDK complains about. */
  onComplaint(text: string): void;
}

/** One connection to a server, from its handshake to its end. It is never reopened: a lost one is replaced. */
export class Link {
  readonly #client: Client;
  readonly #transport: Transport;
  readonly #options: LinkOptions;
  readonly #waiting = new Set<string | number>();
  #isGone = false;
  #answeredMs = -Infinity;
  #closing: Promise<void> | undefined;

  constructor(options: LinkOptions) {
    const { endpoint, egress, clock, version } = options;
    this.#options = options;
    this.#transport =
      endpoint.kind === 'stdio'
        ? new StdioTransport(endpoint.command, clock)
        : httpTransport(endpoint.address, egress, clock);
    this.#client = new Client(
      { name: 'millrace', version },
      {
        // It offers servers nothing: no files, no questions to people, no model.
        capabilities: {},
        // A server of an older revision may end at the question which one it speaks: a process would have to be started twice.
        versionNegotiation: { mode: endpoint.kind === 'stdio' ? 'legacy' : 'auto' },
        // It would send a call again and again until the server has had all the answers that it asks for.
        inputRequired: { autoFulfill: false },
        listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => options.onListChanged() } },
      },
    );
    Object.assign(this.#client, {
      onerror: (error: Error) => options.onComplaint(error.message),
      onclose: () => this.#leave(),
    } satisfies Partial<Client>);
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  get pid(): number | undefined {
    return this.#transport instanceof StdioTransport ? this.#transport.pid : undefined;
  }

  /** What the server wrote to its error output; empty for one that has none. */
  get complaint(): string {
    return this.#transport instanceof StdioTransport ? this.#transport.complaint : '';
  }

  get hasTools(): boolean {
    return this.#client.getServerCapabilities()?.tools !== undefined;
  }

  get hasResources(): boolean {
    return this.#client.getServerCapabilities()?.resources !== undefined;
  }

  /** Throws a `ServerGone` with the reason why there is no connection, or the signal's reason. */
  async connect(signal: AbortSignal): Promise<void> {
    // Each waiter has a deadline, but an attempt to connect must end even when no waiter is left.
    const onAbort = () => void this.close();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      signal.throwIfAborted();
      await this.#client.connect(this.#transport, { signal, timeout: neverMs });
      this.#watch();
    } catch (error) {
      await this.close();
      signal.throwIfAborted();
      throw new ServerGone(this.#whyOf(error), false, { cause: error });
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /**
   * The result of a request. Throws the signal's reason, a `ServerRefusal` with the server's own words, a `SessionGone`, or a
   * `ServerGone`.
   */
  async request(
    method: 'tools/list' | 'tools/call' | 'resources/read' | 'ping',
    params: Record<string, unknown>,
    { signal, onProgress }: RequestOptions,
  ): Promise<Readonly<Record<string, unknown>>> {
    signal.throwIfAborted();
    try {
      const result = await this.#client.request({ method, params } as never, anyResult, {
        signal,
        timeout: neverMs,
        ...defined({ onprogress: onProgress }),
      });
      this.#answeredMs = this.#options.clock.monotonic();
      return result;
    } catch (error) {
      // The SDK reports an abort as a timeout of its own.
      signal.throwIfAborted();
      if (asksForInput(error)) throw new ServerRefusal('it asks for input that it is not given here', { cause: error });
      if (error instanceof ProtocolError && error.code !== lostCode)
        throw new ServerRefusal(error.message, { cause: error });
      if (error instanceof SdkHttpError && (error.status === 404 || error.status === 400))
        throw new SessionGone(this.#whyOf(error), { cause: error });
      this.#answeredMs = -Infinity;
      throw new ServerGone(this.#whyOf(error), mayHaveArrived(error), { cause: error });
    }
  }

  /** Does the server know the session? Asked only where it has sent nothing for a while. */
  async isKnown(signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#options;
    const hasSession = 'sessionId' in this.#transport && this.#transport.sessionId !== undefined;
    if (!hasSession || clock.monotonic() - this.#answeredMs < freshMs) return true;
    try {
      await this.request('ping', {}, { signal });
      return true;
    } catch (error) {
      // Any answer is one that a server gives which knows the session.
      if (error instanceof ServerRefusal) return true;
      if (error instanceof SessionGone || error instanceof ServerGone) return false;
      throw error;
    }
  }

  /** Ends the session and the connection, and the process with all that it has started. Never rejects. */
  close(): Promise<void> {
    // Not at once: its listeners may close it once more.
    this.#closing ??= Promise.resolve().then(() => this.#end());
    return this.#closing;
  }

  async #end(): Promise<void> {
    const transport = this.#transport;
    if (!this.#isGone && transport instanceof StreamableHTTPClientTransport) {
      const ended = transport.terminateSession().catch(() => {});
      await orLate(goodbyeMs, ended, () => {}, { clock: this.#options.clock });
    }
    this.#leave();
    await transport.close().catch(() => {});
    await this.#client.close().catch(() => {});
  }

  #leave(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#options.onGone();
  }

  /**
   * Stands between the SDK and the connection: an answer whose stream has ended is not waited for, and a server that talks
   * without end is left.
   */
  #watch(): void {
    const transport = this.#transport;
    const [deliver, send] = [transport.onmessage, transport.send.bind(transport)];
    const isWithinBounds = floodGate(maxUnaskedMessages, floodWindowMs, this.#options.clock);
    const onMessage = (message: JSONRPCMessage, extra?: MessageExtraInfo) => {
      if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) {
        if (message.id !== undefined) this.#waiting.delete(message.id);
      } else if (!isWithinBounds()) {
        this.#options.onComplaint('it sends more messages than were asked for');
        void this.close();
        return;
      }
      deliver?.(cleanJson(message), extra);
    };
    Object.assign(transport, { onmessage: onMessage } satisfies Partial<Transport>);
    transport.send = async (message, options) => {
      if (!isJSONRPCRequest(message)) return await send(message, options);
      const { id } = message;
      this.#waiting.add(id);
      const onRequestStreamEnd = () => {
        if (!this.#waiting.delete(id)) return;
        deliver?.({ jsonrpc: '2.0', id, error: { code: lostCode, message: lostMessage } });
      };
      await send(message, { ...options, onRequestStreamEnd });
    };
  }

  /** In words of this system: a text of the SDK may contain what the server sent, and what was sent to it. */
  #whyOf(error: unknown): string {
    const { endpoint } = this.#options;
    if (this.#transport instanceof StdioTransport && this.#transport.problem !== undefined)
      return this.#transport.problem;
    const egress = causeOf(error, EgressError);
    if (egress) return egress.message;
    const http = causeOf(error, SdkHttpError);
    if (http?.status === 401 || http?.status === 403)
      return `it answered ${http.status}: check the headers of its definition`;
    if (http?.status !== undefined) return `it answered ${http.status}`;
    const refusal = causeOf(error, ProtocolError);
    if (refusal) return refusal.code === lostCode ? lostMessage : 'it refused the handshake';
    return endpoint.kind === 'stdio' ? 'it closed the connection' : 'the connection failed';
  }
}

/** The answer of a server that wants to be asked again, with more. */
function asksForInput(error: unknown): boolean {
  if (!(error instanceof SdkError) || error.code !== SdkErrorCode.UnsupportedResultType) return false;
  const { resultType } = (error.data ?? {}) as { readonly resultType?: unknown };
  return resultType === 'input_required';
}

function mayHaveArrived(error: unknown): boolean {
  return causeOf(error, EgressError)?.mayHaveArrived ?? true;
}

function causeOf<T extends Error>(thrown: unknown, kind: new (...args: never[]) => T): T | undefined {
  let error = thrown;
  for (let depth = 0; error instanceof Error && depth < 6; depth++) {
    if (error instanceof kind) return error;
    error = error.cause;
  }
  return undefined;
}
