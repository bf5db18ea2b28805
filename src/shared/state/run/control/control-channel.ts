import { type CancelRequest, controlMessage } from '../../../contract/control.ts';
import { orLate } from '../../../base/deadline.ts';
import { jsonOr } from '../../../base/json.ts';
import type { Log } from '../../../base/log.ts';
import type { RedisConnection } from '../../connect.ts';
import { named } from '../../errors.ts';

/** Notifies of cancel requests. The durable flag is what counts; the channel only makes it fast. */
export interface ControlChannel {
  /** Calls back for every cancel of any run, until disposed. */
  onCancel(listener: CancelListener): Disposable;
}

type CancelListener = (runId: string, cancel: CancelRequest) => void;

/** Functions to call, each until it is disposed. */
export function createListeners<Args extends readonly unknown[]>(log: Log) {
  const registered = new Set<{ readonly listener: (...args: Args) => void }>();
  return {
    add(listener: (...args: Args) => void): Disposable {
      const entry = { listener };
      registered.add(entry);
      return { [Symbol.dispose]: () => void registered.delete(entry) };
    },
    /** Calls all of them. An error of one is logged, and the others are called. */
    call(...args: Args): void {
      for (const { listener } of registered) {
        try {
          listener(...args);
        } catch (err) {
          log.error({ err }, 'listener failed');
        }
      }
    },
    clear: () => registered.clear(),
  };
}

/** Longest wait for Redis to confirm the end of the subscription; the connection's owner closes it anyway. */
const farewellMs = 1_000;

export interface RedisControlOptions {
  /** A connection for channels only. It stays open when this is disposed. */
  readonly subscriber: RedisConnection;
  /** `keys.control`. */
  readonly channel: string;
  readonly log: Log;
}

/** Cancel requests from the control channel. What is lost while the connection is away is found by polling the flags. */
export class RedisControlChannel implements ControlChannel, AsyncDisposable {
  readonly #options: RedisControlOptions;
  readonly #listeners: ReturnType<typeof createListeners<Parameters<CancelListener>>>;

  constructor(options: RedisControlOptions) {
    this.#options = options;
    this.#listeners = createListeners(options.log);
    options.subscriber.on('message', this.#receive);
  }

  /** Resolves when Redis has confirmed the subscription. Waits while Redis is away. */
  async start(): Promise<void> {
    const { subscriber, channel } = this.#options;
    await named('subscribe to the control channel', subscriber.subscribe(channel));
  }

  onCancel(listener: CancelListener): Disposable {
    return this.#listeners.add(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { subscriber, channel } = this.#options;
    subscriber.off('message', this.#receive);
    this.#listeners.clear();
    // The connection closes next, and ends what it was subscribed to.
    const left = subscriber.unsubscribe(channel).catch(() => {});
    await orLate(farewellMs, left, () => undefined);
  }

  readonly #receive = (channel: string, text: string): void => {
    if (channel !== this.#options.channel) return;
    const message = controlMessage.safeParse(jsonOr(text)).data;
    if (!message) return this.#options.log.warn({ bytes: text.length }, 'control message ignored');
    this.#listeners.call(message.runId, message.cancel);
  };
}
