import { canonicalJson, isRecord } from '../../shared/base/json.ts';
import type { RunExport } from '../../shared/contract/archive/run-export.ts';
import type { CallView, StepView } from '../../shared/contract/archive/run-steps.ts';
import type { RunOutcomeView } from '../../shared/contract/run.ts';
import type { LlmRequest } from '../../worker/llm/provider.ts';
import type { LoadedAgent } from '../../worker/agents/loaded-agent.ts';
import { handoffPrefix } from '../../worker/tools/names.ts';
import { systemText } from '../../worker/prompt/system-prompt.ts';
import { firstDifference, shown } from '../difference.ts';
import { callsIn, stoppedBy } from './recorded-run.ts';
import type { TestCall } from '../test-calls.ts';

/**
 * How a replay departs from the recorded run.
 *
 * - system: the model would be given another system text
 * - tools: it would be offered other tools, or tools with another description or schema
 * - refused: a call that ran would be refused: its tool is gone or has another name, its arguments do not fit, a policy says no
 * - gated: a person would be asked about a call that no person was asked about
 * - ungated: no person would be asked about a call that a person decided
 * - allowed: a call that was refused would run
 * - call: the model called another tool, or with other arguments (only where a model is asked)
 * - steps: the model would be asked more often, or less
 * - end: the run would end in another way, or with another text
 */
export type DepartureKind = 'system' | 'tools' | 'refused' | 'gated' | 'ungated' | 'allowed' | 'call' | 'steps' | 'end';

export interface Departure {
  readonly kind: DepartureKind;
  /** The recorded run that departs, where that is one that works for the run. */
  readonly child?: { readonly runId: string; readonly agent: string };
  /** The step of the recorded run. */
  readonly stepNumber?: number;
  /** What departs, as a sentence. */
  readonly what: string;
  readonly recorded: string;
  readonly now: string;
}

/** A recorded run, and what became of it in the replay. */
export interface Replayed {
  readonly recorded: RunExport;
  /** Does it work for another one? */
  readonly isChild: boolean;
  readonly outcome: RunOutcomeView;
  /** Its own. */
  readonly calls: readonly TestCall[];
  readonly requests: readonly LlmRequest[];
  /** The definition of its agent as data. */
  readonly definition: Readonly<Record<string, unknown>>;
  /** Those of its agent: their names are added to the system text. */
  readonly skills: LoadedAgent['skills'];
  /** Was a person asked about the call? */
  readonly isAsked: (call: TestCall) => boolean;
}

/**
 * The first departure of each kind of each run, in the order in which they matter. `isLive`: a model was asked, in place of the
 * recording.
 */
export function departuresOf(runs: readonly Replayed[], isLive: boolean): readonly Departure[] {
  return runs.flatMap((replayed) => {
    const all = [
      ...systemDepartures(replayed),
      ...toolDepartures(replayed),
      ...callDepartures(replayed, isLive),
      ...endDepartures(replayed, isLive),
    ];
    const kinds = new Set<DepartureKind>();
    const first = all.filter(({ kind }) => !kinds.has(kind) && kinds.add(kind));
    const { runId, agent } = replayed.recorded.run;
    return replayed.isChild ? first.map((departure) => ({ ...departure, child: { runId, agent } })) : first;
  });
}

function systemDepartures({ recorded, requests, definition, skills }: Replayed): Departure[] {
  const { initial, agent, request } = recorded;
  const sent = requests[0]?.messages.find(({ role }) => role === 'system');
  const [first] = initial;
  const isKnown = first?.role === 'system';
  if (isKnown && requests.length === 0) return [];
  const after = isKnown ? (sent?.role === 'system' ? sent.content : '') : definition['instructions'];
  if (isKnown && after === first.content) return [];
  // A prompt is recorded before the run adds to it. Of a run whose prompt was not kept the definition has the instructions.
  const before = isKnown
    ? systemText({ prompt: first.content, append: request.instructions, skills })
    : agent?.['instructions'];
  if (before === undefined) return [];
  const difference = firstDifference(before, after ?? '');
  if (!difference) return [];
  const { expected, actual } = difference;
  return [{ kind: 'system', what: 'the model would be given another system text', recorded: expected, now: actual }];
}

function toolDepartures({ recorded: { agent }, definition }: Replayed): Departure[] {
  if (agent === null) return [];
  const [before, after] = [advertised(agent), advertised(definition)];
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names.flatMap((name): Departure[] => {
    const difference = firstDifference(before.get(name), after.get(name), name);
    if (!difference) return [];
    const { path, expected, actual } = difference;
    const what = !after.has(name)
      ? `the model would not be offered the tool ${name} any more`
      : before.has(name)
        ? `the tool ${name} would be offered in another way, first at ${path}`
        : `the model would be offered another tool, ${name}`;
    return [{ kind: 'tools', what, recorded: expected, now: actual }];
  });
}

/** What a model sees of the tools in a definition, by name. */
function advertised(definition: Readonly<Record<string, unknown>>): ReadonlyMap<string, unknown> {
  const tools: readonly unknown[] = Array.isArray(definition['toolDefinitions']) ? definition['toolDefinitions'] : [];
  return new Map(
    tools.filter(isRecord).map(({ name, description, parameters }) => [String(name), { description, parameters }]),
  );
}

function callDepartures({ recorded, calls: all, isAsked }: Replayed, isLive: boolean): Departure[] {
  // What comes after the recorded calls is not known of a run that was stopped.
  const own = isLive && stoppedBy(recorded.run) !== undefined ? all.slice(0, callsIn(recorded).length) : all;
  const steps = recorded.steps.steps.flatMap((step) => step.calls.map((call) => ({ step, call })));
  if (isLive) {
    const other = otherCall(steps, own);
    if (other) return [other];
  }
  return steps.flatMap(({ step, call }, index): Departure[] => {
    const now = isLive ? own[index] : own.find((one) => isSameCall(one, { step, call }));
    if (!now || endsWithBoth({ step, call }, now, recorded)) return [];
    return fates({ step, call }, now, isAsked(now));
  });
}

interface RecordedCall {
  readonly step: StepView;
  readonly call: CallView;
}

function isSameCall({ stepNumber, toolCallId }: TestCall, { step, call }: RecordedCall): boolean {
  return stepNumber === step.stepNumber && toolCallId === call.toolCallId;
}

/** The first call that differs from the recorded ones, in their order. */
function otherCall(recorded: readonly RecordedCall[], own: readonly TestCall[]): Departure | undefined {
  for (let index = 0; index < Math.max(recorded.length, own.length); index++) {
    const [before, now] = [recorded[index], own[index]];
    const isSame =
      before && now && before.call.toolName === now.name && canonicalJson(before.call.args) === canonicalJson(now.args);
    if (isSame) continue;
    const what = !now
      ? `the model did not call ${before?.call.toolName}`
      : before?.call.toolName === now.name
        ? `the model called ${now.name} with other arguments`
        : `the model called ${now.name}${before ? ` in place of ${before.call.toolName}` : ', which the recorded run did not'}`;
    const at = before ? { stepNumber: before.step.stepNumber } : {};
    const words = (name: string | undefined, args: unknown) =>
      name === undefined ? 'no call' : `${name} ${shown(args)}`;
    return {
      kind: 'call',
      ...at,
      what,
      recorded: words(before?.call.toolName, before?.call.args),
      now: words(now?.name, now?.args),
    };
  }
  return undefined;
}

/** Did another agent take over neither then nor now? The handoff ended the run, and has no error of its own. */
function endsWithBoth({ step, call }: RecordedCall, now: TestCall, { steps: { steps } }: RunExport): boolean {
  if (!call.toolName.startsWith(handoffPrefix) || now.status !== 'refused' || now.error) return false;
  return steps.every(({ stepNumber }) => stepNumber <= step.stepNumber);
}

/** What became of a call then and now. */
function fates({ step: { stepNumber }, call }: RecordedCall, now: TestCall, isAsked: boolean): Departure[] {
  const { toolName, decision, result, error } = call;
  const wasRefused = error !== undefined && refusals.has(error.kind);
  const isOver = result !== undefined || error !== undefined;
  // The recording of a call that had not begun when its run ended does not say whether a person would have been asked.
  if (!isOver && call.startedAt === undefined && !decision) return [];
  const departure = (kind: DepartureKind, what: string, recorded: string, present: string): Departure[] => [
    { kind, stepNumber, what, recorded, now: present },
  ];
  if (isAsked && !decision)
    return departure(
      'gated',
      `a person would be asked about ${toolName}`,
      'no person was asked',
      'it waits for a person',
    );
  if (decision && !isAsked && now.status !== 'refused')
    return departure(
      'ungated',
      `no person would be asked about ${toolName}`,
      isOver ? 'a person decided' : 'it waited for a person',
      'it runs',
    );
  // A decision without a result: the run was stopped while a person was asked.
  if (now.status === 'refused' && !wasRefused && (isOver || call.startedAt !== undefined))
    return departure(
      'refused',
      `the call of ${toolName} would be refused`,
      result ? 'it ran' : (error?.message ?? 'it began'),
      now.error?.message ?? 'refused',
    );
  if (wasRefused && (now.status === 'done' || now.status === 'failed'))
    return departure('allowed', `the call of ${toolName} would run`, call.error?.message ?? 'refused', 'it runs');
  return [];
}

const refusals: ReadonlySet<string> = new Set([
  'approval_denied',
  'invalid_input',
  'unknown_tool',
  'dataflow_policy_blocked',
  'capability_blocked',
  'tool_unavailable',
  'depth_limit',
]);

function endDepartures({ recorded, outcome: run }: Replayed, isLive: boolean): Departure[] {
  const {
    run: before,
    steps: { steps },
  } = recorded;
  const departures: Departure[] = [];
  const answered = steps.filter(({ answer }) => answer).length;
  const isStopped = stoppedBy(before) !== undefined;
  if (isStopped ? run.steps < answered : run.steps !== answered)
    departures.push({
      kind: 'steps',
      what: run.steps > answered ? 'the run would take more steps' : 'the run would take fewer steps',
      recorded: String(answered),
      now: String(run.steps),
    });
  if (isStopped) return departures;
  const was = endOf(before.status, before.error?.code);
  const is = endOf(run.status, run.error?.code);
  if (was !== is) departures.push({ kind: 'end', what: 'the run would end in another way', recorded: was, now: is });
  const difference = firstDifference(before.result?.text ?? '', run.text);
  // A model never says the same twice.
  if (was === is && difference && !isLive && run.status !== 'failed')
    departures.push({
      kind: 'end',
      what: 'the run would end with another text',
      recorded: difference.expected,
      now: difference.actual,
    });
  return departures;
}

function endOf(status: string, code: string | undefined): string {
  return code === undefined ? status : `${status} (${code})`;
}
