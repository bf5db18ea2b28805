import { RunError } from '../../../shared/base/errors.ts';
import { orLate } from '../../../shared/base/deadline.ts';
import { jsonOr } from '../../../shared/base/json.ts';
import type { RunEvent } from '../../../shared/contract/event.ts';
import type { RedisConnection } from '../../../shared/state/connect.ts';
import { untilStopped } from '../stop-signal.ts';

/** Subscribes to one channel. Both calls must return at once and must not throw: all listeners of a channel share them. */
export interface Listener {
  /** One message: one or more events in sequence order. The objects are shared, never change them. */
  onEvents(events: readonly RunEvent[]): void;
  /** Something may have been missed: a reconnect, a message that made no sense, or `idleMs` of silence. */
  onSilence(): void;
}

/** Disposing it unsubscribes the listener. */
export interface Subscription extends Disposable {
  /** Resolves once messages arrive. Rejects with `queue_unavailable` after 4.5 seconds without Redis. */
  readonly ready: Promise<void>;
}

interface Channel {
  readonly listeners: Set<Listener>;
  readonly ready: Promise<void>;
  readonly idle: NodeJS.Timeout;
  readonly sharded: boolean;
}

const subscribeTimeoutMs = 4_500;

/**
 * All live subscriptions of a process on one connection: a channel is subscribed once however many listen to it, each
 * message is parsed once, and every listener of a channel is woken at the same moment, so that their reads can be shared.
 */
export class EventHub {
  readonly #connect: () => RedisConnection;
  readonly #cluster: boolean;
  readonly #idleMs: number;
  readonly #channels = new Map<string, Channel>();
  #connection: RedisConnection | undefined;
  #closed = false;

  constructor(connect: () => RedisConnection, cluster: boolean, idleMs: number) {
    this.#connect = connect;
    this.#cluster = cluster;
    this.#idleMs = idleMs;
  }

  /** Subscribes to the live channel of a run. In a Cluster it is a sharded one. */
  subscribeRun(channel: string, listener: Listener): Subscription {
    return this.subscribe(channel, listener, this.#cluster);
  }

  /** Subscribes to a channel, which all nodes carry unless it is a sharded one. */
  subscribe(name: string, listener: Listener, sharded = false): Subscription {
    if (this.#closed) throw new RunError('queue_unavailable', 'this client is closed');
    const channel = this.#channels.get(name) ?? this.#openChannel(name, sharded);
    channel.listeners.add(listener);
    return {
      ready: channel.ready,
      [Symbol.dispose]: () => {
        channel.listeners.delete(listener);
        if (channel.listeners.size === 0 && this.#channels.get(name) === channel) this.#closeChannel(name, channel);
      },
    };
  }

  /** Ends all subscriptions. A later subscription throws `queue_unavailable`. */
  close(): void {
    this.#closed = true;
    for (const channel of this.#channels.values()) clearTimeout(channel.idle);
    this.#channels.clear();
    this.#connection?.disconnect();
  }

  #openChannel(name: string, sharded: boolean): Channel {
    const connection = (this.#connection ??= this.#open());
    const asked = sharded ? connection.ssubscribe(name) : connection.subscribe(name);
    const channel: Channel = {
      listeners: new Set(),
      ready: withinTimeout(asked),
      idle: setTimeout(() => this.#silence(channel), this.#idleMs),
      sharded,
    };
    // The caller that awaits it sees the rejection; a listener that left before must not bring the process down.
    channel.ready.catch(() => {});
    this.#channels.set(name, channel);
    return channel;
  }

  #closeChannel(name: string, channel: Channel): void {
    clearTimeout(channel.idle);
    this.#channels.delete(name);
    const connection = this.#connection;
    const left = channel.sharded ? connection?.sunsubscribe(name) : connection?.unsubscribe(name);
    // A connection that is down has forgotten the channel by itself.
    left?.catch(() => {});
  }

  #open(): RedisConnection {
    const connection = this.#connect();
    const onMessage = (name: string, message: string) => this.#deliver(name, message);
    connection.on('message', onMessage);
    connection.on('smessage', onMessage);
    connection.on('ready', () => this.#afterReconnect(connection));
    return connection;
  }

  #deliver(name: string, message: string): void {
    const channel = this.#channels.get(name);
    if (!channel) return;
    channel.idle.refresh();
    const events = jsonOr(message);
    for (const listener of channel.listeners) {
      if (Array.isArray(events)) listener.onEvents(events as RunEvent[]);
      else listener.onSilence();
    }
  }

  /** The answer to a ping comes after those to the resubscriptions: from then on nothing can be missed unseen. */
  #afterReconnect(connection: RedisConnection): void {
    const wake = () => {
      for (const channel of this.#channels.values()) this.#silence(channel);
    };
    if (this.#cluster) wake();
    else connection.ping().then(wake, () => {});
  }

  #silence(channel: Channel): void {
    channel.idle.refresh();
    for (const listener of channel.listeners) listener.onSilence();
  }
}

async function withinTimeout(asked: Promise<unknown>): Promise<void> {
  try {
    await orLate(subscribeTimeoutMs, asked, () => {
      throw new RunError('queue_unavailable', 'Redis did not confirm the subscription in time');
    });
  } catch (error) {
    throw error instanceof RunError
      ? error
      : new RunError('queue_unavailable', 'the subscription failed', { cause: error });
  }
}

/**
 * What one subscriber has not taken yet. Bounded: when the subscriber is too slow everything is dropped and `missed`
 * is set; the log still has it.
 */
export class EventBuffer implements Listener {
  readonly #capacity: number;
  #events: RunEvent[] = [];
  #missed = false;
  #wake: (() => void) | undefined;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  onEvents(events: readonly RunEvent[]): void {
    if (this.#missed) return;
    if (this.#events.length + events.length > this.#capacity) this.onSilence();
    else this.#events.push(...events);
    this.#wake?.();
  }

  /** What is here may not be everything, so it is worth nothing. */
  onSilence(): void {
    this.#events = [];
    this.#missed = true;
    this.#wake?.();
  }

  /** Takes everything that has come; and whether something may be missing, which is forgotten by asking. */
  take(): { readonly events: readonly RunEvent[]; readonly missed: boolean } {
    const taken = { events: this.#events, missed: this.#missed };
    this.#events = [];
    this.#missed = false;
    return taken;
  }

  /** Resolves as soon as there is something to take, or the signal aborts. One caller at a time. */
  async filled(stop: AbortSignal): Promise<void> {
    if (this.#missed || this.#events.length > 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    await untilStopped(promise, stop);
    this.#wake = undefined;
  }
}
