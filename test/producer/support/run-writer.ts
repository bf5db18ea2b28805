import type { EventBody } from '../../../src/shared/contract/event.ts';
import type { RedisConnection } from '../../../src/shared/state/connect.ts';
import type { Keys } from '../../../src/shared/state/keys.ts';
import type { RunStatus } from '../../../src/shared/contract/run.ts';

interface Written {
  /** The events are in the log, but their message is lost. */
  readonly unpublished?: boolean;
  /** Fields of the record that change in the same step. */
  readonly fields?: Readonly<Record<string, string>>;
}

/** Writes events and states of a run as the worker's scripts do: log, record and message in one step. */
export class RunWriter {
  readonly #redis: RedisConnection;
  readonly #keys: Keys;
  readonly runId: string;
  sequence: number;

  constructor(redis: RedisConnection, keys: Keys, runId: string, sequence = 1) {
    this.#redis = redis;
    this.#keys = keys;
    this.runId = runId;
    this.sequence = sequence;
  }

  async emit(bodies: readonly EventBody[], { unpublished = false, fields }: Written = {}): Promise<void> {
    const events = bodies.map((body) => this.#number(body));
    const transaction = this.#redis.multi();
    if (fields) transaction.hset(this.#keys.run(this.runId), fields);
    for (const { id, json } of events) transaction.xadd(this.#keys.events(this.runId), id, 'e', json);
    if (!unpublished) {
      const message = `[${events.map(({ json }) => json).join(',')}]`;
      transaction.publish(this.#keys.live(this.runId), message);
      transaction.publish(this.#keys.firehose, message);
    }
    await transaction.exec();
  }

  /** Text deltas, each an event. */
  async text(count: number, written: Written = {}): Promise<void> {
    await this.emit(
      Array.from({ length: count }, (_, i) => ({ type: 'text.delta', delta: `${i}`, model: 'm' })),
      written,
    );
  }

  async set(fields: Record<string, string>): Promise<void> {
    await this.#redis.hset(this.#keys.run(this.runId), fields);
  }

  async start(): Promise<void> {
    await this.set({ status: 'running', held: '1', owner: 'someone', epoch: '1', startedAt: new Date().toISOString() });
  }

  /** Ends the run: record and terminal event. */
  async end(status: RunStatus = 'completed', written: Written = {}): Promise<void> {
    const usage = { input: 3, output: 2, cached: 0, cacheWrite: 0, total: 5, byModel: {} };
    const error = { code: 'provider_unavailable', message: 'the provider is away', retryable: true } as const;
    const failed = status === 'failed';
    const fields = {
      status,
      held: '0',
      owner: '',
      endedAt: new Date().toISOString(),
      lastSequence: String(this.sequence + 1),
      usage: JSON.stringify(usage),
      costMicrocents: '700',
      steps: '1',
      ...(failed ? { error: JSON.stringify(error) } : { result: JSON.stringify({ text: 'It is on its way.' }) }),
    };
    await this.emit(
      [
        failed
          ? { type: 'run.failed', error, usage, costMicrocents: 700 }
          : {
              type: 'run.completed',
              status: 'completed',
              result: { text: 'It is on its way.' },
              usage,
              costMicrocents: 700,
              durationMs: 5,
              steps: 1,
            },
      ],
      { ...written, fields },
    );
  }

  #number(body: EventBody) {
    this.sequence += 1;
    const event = {
      v: 1,
      sequenceNumber: this.sequence,
      runId: this.runId,
      timestamp: new Date().toISOString(),
      ...body,
    };
    return { id: `${this.sequence}-0`, json: JSON.stringify(event) };
  }
}
