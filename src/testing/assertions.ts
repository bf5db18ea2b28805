import { AssertionError } from 'node:assert';
import { isDeepStrictEqual } from 'node:util';
import type { ErrorCode } from '../shared/base/errors.ts';
import { isRecord } from '../shared/base/json.ts';
import type { EventType, PendingView } from '../shared/contract/event.ts';
import { formatUsd, usdToMicrocents } from '../shared/contract/money.ts';
import { lastOf } from './scripts.ts';
import { shown } from './difference.ts';
import type { TestCall } from './test-calls.ts';
import type { TestRun } from './test-agent.ts';

/** Arguments that a call must have: at least these fields with these values, or whatever the function says yes to. */
export type ExpectedArgs = Readonly<Record<string, unknown>> | ((args: Readonly<Record<string, unknown>>) => boolean);

/** A call that is looked for. What is absent may be anything. */
export interface ExpectedCall {
  readonly name: string;
  readonly args?: ExpectedArgs;
  /** Default: any call whose tool ran (`done`, `failed`). */
  readonly status?: TestCall['status'];
  /** The id of the agent whose model asked for it. */
  readonly agent?: string;
}

/** What a list of calls has to be. */
export interface CallsOptions {
  /** Other calls may come before, between and after them. Default: these calls and no others. */
  readonly among?: boolean;
}

/** What the cost of a run has to be, in US dollars or in integer microcents (1e-8 US dollars). */
export interface ExpectedCost {
  readonly atMostUsd?: number;
  readonly atMostMicrocents?: number;
  readonly microcents?: number;
}

/**
 * Throws unless the run completed, with this text if one is given: the whole text, or one that the expression finds.
 *
 * @example
 * assertCompleted(run, /was shipped/);
 */
export function assertCompleted(run: TestRun, text?: string | RegExp): void {
  if (run.status !== 'completed') throw wrong(run, 'the run has not completed', run.status, 'completed');
  if (text !== undefined) assertText(run, text);
}

/** Throws unless the run failed, with this error code if one is given. */
export function assertFailed(run: TestRun, code?: ErrorCode): void {
  if (run.status !== 'failed') throw wrong(run, 'the run has not failed', run.status, 'failed');
  if (code !== undefined && run.error?.code !== code)
    throw wrong(run, 'the run failed with another error', run.error?.code, code);
}

/** Throws unless the run waits, for a call of this tool if one is given. */
export function assertWaits(run: TestRun, tool?: string): void {
  if (run.status !== 'suspended') throw wrong(run, 'the run does not wait', run.status, 'suspended');
  const waitsFor = run.pending.map(({ toolName, kind }) => toolName ?? kind);
  if (tool !== undefined && !waitsFor.includes(tool))
    throw wrong(run, `the run does not wait for ${tool}`, waitsFor, [tool]);
}

/** Throws unless the run has this text: as a whole, or as the expression finds it. */
export function assertText(run: TestRun, text: string | RegExp): void {
  const isRight = typeof text === 'string' ? run.text === text : text.test(run.text);
  if (!isRight) throw wrong(run, 'the run has another text', run.text, typeof text === 'string' ? text : String(text));
}

/** Throws unless the answer of an agent with an `outputSchema` has at least these fields with these values. */
export function assertOutput(run: TestRun, output: unknown): void {
  if (!matches(output, run.output)) throw wrong(run, 'the run has another output', run.output, output);
}

/**
 * Throws unless the calls whose tools ran are these, in this order and no others; with `among`, unless they are among them in this
 * order. Expected calls with a `status` are compared with all calls of that status instead.
 *
 * @example
 * assertCalls(run, [{ name: 'lookup_order', args: { order: '7' } }, { name: 'refund' }]);
 * assertCalls(run, [{ name: 'refund', status: 'refused' }], { among: true });
 */
export function assertCalls(
  run: TestRun,
  expected: readonly ExpectedCall[],
  { among = false }: CallsOptions = {},
): void {
  const looked = run.calls.filter((call) => isLookedAt(call, expected));
  const isRight = among
    ? isInOrder(expected, looked)
    : looked.length === expected.length && expected.every((one, index) => isCall(one, looked[index]));
  if (isRight) return;
  const what = among ? 'these calls are not among those of the run, in this order' : 'the run made other calls';
  throw wrong(run, what, looked.map(callInWords), expected.map(callInWords));
}

/**
 * Throws unless the run made calls like this one: so many, or at least one. Answers them.
 *
 * @example
 * const [call] = assertCalled(run, { name: 'refund', args: ({ amount }) => Number(amount) <= 100 });
 */
export function assertCalled(run: TestRun, expected: string | ExpectedCall, times?: number): readonly TestCall[] {
  const wanted = typeof expected === 'string' ? { name: expected } : expected;
  const found = run.calls.filter((call) => isLookedAt(call, [wanted]) && isCall(wanted, call));
  if (times === undefined ? found.length > 0 : found.length === times) return found;
  const often = times === undefined ? 'at least once' : `${times} times`;
  throw wrong(
    run,
    `${callInWords(wanted)} was to be called ${often}, and was ${found.length} times`,
    found.length,
    times,
  );
}

/** Throws if a tool of this name ran, or a call like this one was made. */
export function assertNotCalled(run: TestRun, expected: string | ExpectedCall): void {
  assertCalled(run, expected, 0);
}

/** Throws unless the run cost this much. Prices are those of the model; see `millrace costs` for where they come from. */
export function assertCost(run: TestRun, { atMostUsd, atMostMicrocents, microcents }: ExpectedCost): void {
  const { costMicrocents: cost } = run;
  const most = Math.min(atMostUsd === undefined ? Infinity : usdToMicrocents(atMostUsd), atMostMicrocents ?? Infinity);
  if (cost > most) throw wrong(run, `the run cost ${formatUsd(cost)}, more than ${formatUsd(most)}`, cost, most);
  if (microcents !== undefined && cost !== microcents)
    throw wrong(run, `the run cost ${formatUsd(cost)}, not ${formatUsd(microcents)}`, cost, microcents);
}

/** Throws unless the run took so many steps (model calls with the tool calls they asked for), or at most so many. */
export function assertSteps(run: TestRun, expected: number | { readonly atMost: number }): void {
  const isRight = typeof expected === 'number' ? run.steps === expected : run.steps <= expected.atMost;
  if (!isRight) throw wrong(run, 'the run took another number of steps', run.steps, expected);
}

/** Throws unless events of these types are among those of the run, in this order. */
export function assertEvents(run: TestRun, types: readonly EventType[]): void {
  const seen = run.events.map(({ type }) => type);
  let next = 0;
  for (const type of seen) if (type === types[next]) next++;
  if (next === types.length) return;
  throw wrong(
    run,
    `the run has no event ${types[next]} ${next === 0 ? '' : `after ${types[next - 1]}`}`.trim(),
    seen,
    types,
  );
}

/** Throws unless every answer of a scripted or recorded model was asked for. */
export function assertAllAnswered(model: { readonly left: number }): void {
  const { left } = model;
  if (left === 0) return;
  const message = `the model has ${left === 1 ? 'one answer' : `${left} answers`} that nothing asked for`;
  throw new AssertionError({ message, actual: left, expected: 0, operator: 'equal', stackStartFn: assertAllAnswered });
}

/** Where the test expects no status, those calls count whose tools ran. */
function isLookedAt({ status }: TestCall, expected: readonly ExpectedCall[]): boolean {
  const asked = new Set(expected.flatMap((call) => call.status ?? []));
  const hasOthers = expected.length === 0 || expected.some((call) => call.status === undefined);
  return asked.has(status) || (hasOthers && (status === 'done' || status === 'failed'));
}

function isCall({ name, args, status, agent }: ExpectedCall, call: TestCall | undefined): boolean {
  if (call?.name !== name) return false;
  if (status !== undefined && call.status !== status) return false;
  if (agent !== undefined && call.agent !== agent) return false;
  if (args === undefined) return true;
  return typeof args === 'function' ? args(call.args) : matches(args, call.args);
}

function isInOrder(expected: readonly ExpectedCall[], calls: readonly TestCall[]): boolean {
  let next = 0;
  for (const call of calls) {
    const wanted = expected[next];
    if (wanted && isCall(wanted, call)) next++;
  }
  return next === expected.length;
}

/** Has a value all that the expected one has? Objects may have more fields, lists not more items. */
function matches(expected: unknown, actual: unknown): boolean {
  if (Array.isArray(expected))
    return (
      Array.isArray(actual) &&
      actual.length === expected.length &&
      expected.every((item, index) => matches(item, actual[index]))
    );
  if (!isRecord(expected)) return isDeepStrictEqual(expected, actual);
  return isRecord(actual) && Object.entries(expected).every(([name, item]) => matches(item, actual[name]));
}

function callInWords({ name, args, status }: ExpectedCall | TestCall): string {
  const asked = typeof args === 'function' ? '(as the function says)' : args === undefined ? '' : ` ${shown(args)}`;
  return `${name}${asked}${status === undefined ? '' : ` (${status})`}`;
}

/** The error of an assertion: what is wrong, and then what the run did. Test runners show both values. */
function wrong(run: TestRun, what: string, actual: unknown, expected: unknown): AssertionError {
  const values = [`  expected: ${shown(expected)}`, `  actual:   ${shown(actual)}`];
  const message = [what, ...values, '', ...runInWords(run)].join('\n');
  return new AssertionError({ message, actual, expected, operator: 'millrace' });
}

function runInWords(run: TestRun): string[] {
  const { status, error, steps, costMicrocents, calls, text, pending, requests } = run;
  const last = requests.at(-1);
  return [
    `The run: ${status} after ${steps === 1 ? 'one step' : `${steps} steps`}, ${formatUsd(costMicrocents)}`,
    ...(error ? [`  error ${error.code}: ${error.message}`] : []),
    ...pending.map((item) => `  waits for: ${pendingInWords(item)}`),
    ...calls.map(
      (call, index) => `  call ${index + 1}: ${callInWords(call)}${call.error ? `: ${call.error.message}` : ''}`,
    ),
    ...(text === '' ? [] : [`  text: ${shown(text)}`]),
    ...(last ? [`  the model saw last ${lastOf(last)}`] : []),
  ];
}

function pendingInWords({ kind, toolName, args }: PendingView): string {
  return `${kind}${toolName === undefined ? '' : ` of ${toolName}`}${args === undefined ? '' : ` ${shown(args)}`}`;
}
