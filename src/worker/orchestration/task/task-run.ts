import { defined } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import { deepFreeze } from '../../../shared/base/json-value.ts';
import {
  taskCap,
  type TaskEval,
  type TaskSettings,
  type TaskState,
  type TaskStep,
} from '../../../shared/contract/orchestration/task.ts';
import type { AnyAdapter, TaskContext } from '../../agents/adapter.ts';
import { callAdapter, type AdapterCall, type CallReply } from './call.ts';
import { TaskHistory } from './history.ts';
import type { TaskHost } from './host.ts';
import { RunLedger } from './ledger.ts';

type Tools = Pick<TaskContext, 'signal' | 'charge'>;

/** What a task knows while it runs, and its only ways to the outside: calls of the adapter, events and the clock. */
export class RunningTask {
  readonly settings: TaskSettings;
  readonly adapter: AnyAdapter;
  readonly host: TaskHost;
  readonly ledger: RunLedger;
  /** What the clock of its work stood at when it began. */
  readonly #startedMs: number;
  /** When the clock was read last. */
  #nowMs: number;
  readonly #history: TaskHistory;
  #events: number;
  knowledge: Readonly<Record<string, unknown>>;
  state: unknown = null;
  evals: readonly TaskEval[] = [];
  lastAction: string | undefined;
  repeated = 0;
  noProgress = 0;

  constructor({ settings, adapter, host, ledgerId, goOn }: RunningTaskOptions) {
    this.settings = deepFreeze(settings);
    this.adapter = adapter;
    this.host = host;
    this.knowledge = this.settings.knowledge;
    this.#nowMs = host.now();
    this.#startedMs = this.#workedMs() - (goOn?.elapsedMs ?? 0);
    this.#history = new TaskHistory(deepFreeze(goOn?.steps ?? []));
    this.#events = goOn?.events ?? 0;
    const { id } = settings.task;
    const now = () => this.#nowMs;
    this.ledger = new RunLedger(defined({ id: ledgerId ?? id, taskId: id, now, goOn: goOn?.row }));
    if (!goOn) return;
    this.state = deepFreeze(goOn.state);
    this.evals = deepFreeze(goOn.evals);
    this.lastAction = goOn.lastAction;
    this.repeated = goOn.repeated;
    this.noProgress = goOn.noProgress;
  }

  get taskId(): string {
    return this.settings.task.id;
  }

  get history(): readonly TaskStep[] {
    return this.#history.steps;
  }

  /** The step that comes next, from 1. */
  get stepNumber(): number {
    return this.#history.steps.length + 1;
  }

  get events(): number {
    return this.#events;
  }

  get spentMicrocents(): number {
    return this.ledger.row().costMicrocents + (this.host.lostMicrocents?.() ?? 0);
  }

  /** Reads the clock. Time in which the task waited for an answer, or for a worker, is not in it. */
  elapsedMs(): number {
    this.#nowMs = this.host.now();
    return Math.max(0, this.#workedMs() - this.#startedMs);
  }

  #workedMs(): number {
    return this.host.workedMs?.() ?? this.#nowMs;
  }

  addStep(step: TaskStep): void {
    this.#history.add(deepFreeze(step));
  }

  async emit(event: EventBody): Promise<void> {
    this.#events++;
    this.ledger.observe(event);
    await this.host.emit(event);
  }

  /** Calls a function of the adapter and emits what that cost. Throws `cancelled`, and what the host throws. */
  async call(name: string, work: (context: TaskContext) => unknown, read: AdapterCall['read']): Promise<CallReply> {
    const timeoutMs = Math.max(1, this.settings.budget.maxWallMs - this.elapsedMs());
    const call = { name, read, timeoutMs, work: (tools: Tools) => work(this.#context(name, tools)) };
    const reply = await callAdapter(call, this.host);
    for (const charge of reply.charges) {
      const cumulativeCostMicrocents = this.spentMicrocents + charge.costMicrocents;
      await this.emit({ type: 'cost.updated', ...charge, cumulativeCostMicrocents });
    }
    return reply;
  }

  /** Everything that the task needs to go on elsewhere. */
  save(question: TaskState['question']): TaskState {
    const elapsedMs = this.elapsedMs();
    const { id } = this.adapter;
    return {
      version: 1,
      ...(id !== undefined && { adapterId: id }),
      settings: { ...this.settings, knowledge: this.knowledge as TaskSettings['knowledge'] },
      question,
      state: this.state,
      evals: [...this.evals],
      steps: [...this.history],
      ...(this.lastAction !== undefined && { lastAction: this.lastAction }),
      repeated: this.repeated,
      noProgress: this.noProgress,
      askedAt: new Date(this.#nowMs).toISOString(),
      elapsedMs,
      events: this.#events,
      row: { ...this.ledger.row(), wallMs: elapsedMs },
    };
  }

  #context(name: string, { signal, charge }: Tools): TaskContext {
    const cap = taskCap(this.settings);
    const spentMicrocents = this.spentMicrocents;
    return {
      task: this.settings.task,
      knowledge: this.knowledge,
      history: this.history,
      stepNumber: this.stepNumber,
      spentMicrocents,
      ...(cap !== undefined && { remainingMicrocents: Math.max(0, cap - spentMicrocents) }),
      signal,
      idempotencyKey: `${this.taskId}:${name}`,
      charge,
    };
  }
}

export interface RunningTaskOptions {
  readonly settings: TaskSettings;
  readonly adapter: AnyAdapter;
  readonly host: TaskHost;
  /** Default: the id of the task. */
  readonly ledgerId?: string | undefined;
  /** A task that waited for an answer. */
  readonly goOn?: TaskState;
}

/** Throws `cancelled` when the task is to end. */
export function refuseAborted({ host: { signal } }: RunningTask): void {
  if (signal.aborted) throw new RunError('cancelled', 'the task was cancelled', { cause: signal.reason });
}
