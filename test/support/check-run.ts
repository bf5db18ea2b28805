import { expect } from 'vitest';
import type { Millrace, RunEvent, RunView } from '../../src/producer/index.ts';
import { eventSchema, isTerminal, type EventOf } from '../../src/shared/contract/event.ts';
import { all } from './http.ts';
import type { SeenCall } from './plan-provider.ts';
import type { Execution } from './effect-recorder.ts';

/** Everything about one run that the outside can see. */
export interface Observed {
  readonly view: RunView;
  readonly events: readonly RunEvent[];
  /** What the effect recorder saw of this run's tools. */
  readonly executions: readonly Execution[];
}

/** Reads a run that has ended, or waits until it has. */
export async function observe(mill: Millrace, runId: string, recorded: () => readonly Execution[]): Promise<Observed> {
  const events = await all(mill.events(runId));
  const view = await mill.get(runId);
  return { view, events, executions: recorded().filter((execution) => execution.runId === runId) };
}

/** What holds for every run that has ended, whatever was done to it. Reads public outputs only. */
export function checkRun(observed: Observed): void {
  checkSequence(observed);
  checkEnding(observed);
  checkText(observed);
  checkTools(observed);
  checkMoney(observed);
}

/**
 * What the model server saw fits the run: an answer that was journalled is never asked for again, and a step is asked
 * for once more only after a failed attempt or a worker that was lost.
 */
export function checkCalls(observed: Observed, calls: readonly SeenCall[]): void {
  const { view } = observed;
  for (const { stepNumber, timestamp } of eventsOf(observed, 'step.end')) {
    const late = calls.filter((call) => call.step === stepNumber && call.startedAt > Date.parse(timestamp));
    expect(late, `calls for step ${stepNumber} of run ${view.runId} after its end`).toEqual([]);
  }
  const failed = view.attempts.filter((attempt) => attempt.outcome === 'failed').length;
  const steps = new Set(calls.map((call) => call.step)).size;
  expect(calls.length, `model calls of run ${view.runId}`).toBeLessThanOrEqual(steps + failed + view.recoveries);
}

/** Events of one type, in order. */
export function eventsOf<T extends RunEvent['type']>({ events }: Pick<Observed, 'events'>, type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}

function checkSequence({ view, events }: Observed): void {
  const name = `events of run ${view.runId}`;
  expect(
    events.map((event) => event.sequenceNumber),
    `${name} have no gap and no repeat`,
  ).toEqual(events.map((_, index) => index + 1));
  expect(events[0]?.type, `${name} begin`).toBe('run.queued');
  expect(view.lastSequence, `${name}: the record knows the last one`).toBe(events.length);
  for (const event of events) {
    const problems = eventSchema.safeParse(event).error?.issues;
    expect(problems, `${name}: number ${event.sequenceNumber}, ${event.type}`).toBeUndefined();
    expect(event.runId).toBe(view.runId);
  }
}

function checkEnding({ view, events }: Observed): void {
  const name = `run ${view.runId}`;
  expect(events.filter(isTerminal), `${name} ends once`).toHaveLength(1);
  const end = events.at(-1);
  expect(end && isTerminal(end), `nothing follows the end of ${name}`).toBe(true);
  if (end?.type === 'run.completed') {
    expect(view.status).toBe(end.status);
    expect(view.result).toEqual(end.result);
  } else expect(view.status).toBe(end?.type === 'run.failed' ? 'failed' : 'cancelled');
  if (end?.type === 'run.failed') expect(view.error).toEqual(end.error);
}

/** What a subscriber shows after dropping what a reset discards is what the model wrote. */
function checkText({ events, view }: Observed): void {
  let shown = '';
  for (const event of events) {
    if (event.type === 'step.start' || event.type === 'step.reset') shown = '';
    if (event.type === 'text.delta') shown += event.delta;
    if (event.type === 'text.complete') expect(shown, `text of a step of run ${view.runId}`).toBe(event.text);
  }
}

/**
 * One key per planned call; a `once` tool at most once for each; and where it is unknown whether it ran, the events
 * say so. Every call that began has an end.
 */
function checkTools(observed: Observed): void {
  const { view, executions } = observed;
  const planned = Map.groupBy(executions, ({ tool, id }) => `${tool} ${id}`);
  for (const [call, times] of planned) {
    const keys = new Set(times.map(({ key }) => key));
    expect([...keys], `keys of ${call} in run ${view.runId}`).toHaveLength(1);
    if (call.startsWith('charge ')) expect(times, `executions of ${call} in run ${view.runId}`).toHaveLength(1);
  }
  const unknown = new Set(eventsOf(observed, 'tool.outcome_unknown').map(({ key }) => key));
  expect(eventsOf(observed, 'tool.outcome_unknown'), 'an unknown outcome is emitted once').toHaveLength(unknown.size);
  if (view.status !== 'completed') return;
  const known =
    eventsOf(observed, 'tool.execute.end').length + unknown.size + eventsOf(observed, 'tool.execute.error').length;
  expect(known, `every call of run ${view.runId} that took effect has an outcome`).toBeGreaterThanOrEqual(planned.size);
}

function checkMoney(observed: Observed): void {
  const { view } = observed;
  const costs = eventsOf(observed, 'cost.updated').map((event) => event.cumulativeCostMicrocents);
  expect(costs, `costs of run ${view.runId} only grow`).toEqual(costs.toSorted((a, b) => a - b));
  // A task has no attempts: its adapter says what it paid.
  const paid = view.ledger ? eventsOf(observed, 'cost.updated') : view.attempts;
  const own = paid.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0);
  expect(view.costMicrocents, `cost of run ${view.runId}`).toBe(own + (view.childCostMicrocents ?? 0));
  if (view.ledger) expect(view.ledger.costMicrocents, `ledger of task ${view.runId}`).toBe(own);
  const parts = Object.values(view.usage?.byModel ?? {});
  expect(view.usage?.total ?? 0, `usage of run ${view.runId}`).toBe(parts.reduce((sum, model) => sum + model.total, 0));
}
