import { isTerminal, type EventOf, type RunEvent } from '../shared/contract/event.ts';
import { flowDecision, type FlowDecision, type FlowFinding } from '../shared/contract/flow.ts';
import type { ToolErrorKind } from '../shared/base/errors.ts';
import { handoffToolName } from '../worker/tools/builtin/agents.ts';
import { callKey, CurrentSteps } from './current-steps.ts';
import type { ToolLog } from './stand-ins.ts';

/** One tool call of a run, or of a run that worked for it. */
export interface TestCall {
  readonly name: string;
  /** What the tool was given: as a person has changed it, where one has. Of a refused call: what the model asked for. */
  readonly args: Readonly<Record<string, unknown>>;
  /**
   * `done`: the tool answered, or another agent took over. `failed`: it threw, took too long, or its answer was refused. `refused`: it never ran, because of a
   * person, a rule, its arguments or the end of the run; see `error`. `waiting`: it has not ended.
   */
  readonly status: 'done' | 'failed' | 'refused' | 'waiting';
  /** What the code of the tool, or its stand-in, returned; of a call that another run does, the beginning of its answer. */
  readonly result?: unknown;
  readonly error?: { readonly kind: ToolErrorKind; readonly message: string };
  /** What the data-flow policy found, and what became of the call: see `dataFlowPolicy`. Absent: nothing was found. */
  readonly flow?: { readonly decision: FlowDecision; readonly findings: readonly FlowFinding[] };
  /** The agent whose model asked for it. */
  readonly agent: string | undefined;
  readonly runId: string;
  /** The step whose answer asked for it, or for the script that made it. */
  readonly stepNumber: number;
  /** Names it within its step: some providers number the calls of each answer anew. */
  readonly toolCallId: string;
  /** By the clock of the run, in milliseconds. Absent: it has not ended. */
  readonly durationMs?: number;
}

type Open = { -readonly [name in keyof TestCall]: TestCall[name] };

/** Kinds of errors that a call has before the tool runs. */
const beforeTheTool: ReadonlySet<ToolErrorKind> = new Set<ToolErrorKind>([
  'approval_denied',
  'invalid_input',
  'unknown_tool',
  'dataflow_policy_blocked',
  'capability_blocked',
  'tool_unavailable',
  'depth_limit',
  'outcome_unknown',
]);

/** The calls that events are about, in the order in which models asked for them. */
export function callsOf(events: readonly RunEvent[], log: ToolLog): TestCall[] {
  const calls: Open[] = [];
  const steps = new CurrentSteps();
  const latest = new Map<string, Open>();
  const keyOf = ({ runId, toolCallId }: { readonly runId: string; readonly toolCallId: string }) =>
    callKey({ runId, stepNumber: steps.of(runId), toolCallId });
  const find = (event: Parameters<typeof keyOf>[0]) => latest.get(keyOf(event));
  const begin = (event: EventOf<'tool.call.start' | 'tool.execute.start'>): Open => {
    const { runId, toolCallId, toolName: name, agentId: agent } = event;
    const stepNumber = steps.of(runId);
    const call: Open = { name, args: {}, status: 'waiting', agent, runId, stepNumber, toolCallId };
    calls.push(call);
    latest.set(keyOf(event), call);
    return call;
  };
  // A refusal or a failure that ends the run has no event of its own.
  const endWith = (runId: string) => {
    for (const call of calls) {
      if (call.runId !== runId || call.status !== 'waiting') continue;
      call.status = log.of(call) ? 'failed' : 'refused';
    }
  };
  for (const event of events) {
    steps.saw(event);
    switch (event.type) {
      case 'tool.call.start':
        begin(event);
        break;
      case 'tool.call.end': {
        const call = find(event);
        if (call) call.args = event.finalArgs;
        break;
      }
      case 'tool.execute.start': {
        const call = find(event) ?? begin(event);
        // A call that is refused starts without its arguments.
        if (Object.keys(event.args).length > 0) call.args = event.args;
        break;
      }
      case 'dataflow.flagged':
      case 'dataflow.asked':
      case 'dataflow.blocked':
      case 'dataflow.declassified': {
        const decision = flowDecision.parse(event.type.slice('dataflow.'.length));
        // Of a call that a script makes it comes before the call begins.
        const call = find(event) ?? begin({ ...event, type: 'tool.call.start' });
        if (call) call.flow = { decision, findings: event.findings };
        break;
      }
      case 'tool.execute.end':
        conclude(find(event), event, log);
        break;
      case 'tool.execute.error':
        conclude(find(event), event, log);
        break;
      case 'handoff': {
        const name = handoffToolName(event.toAgentId);
        const call = calls.findLast(
          (one) => one.runId === event.runId && one.status === 'waiting' && one.name === name,
        );
        if (call) Object.assign(call, { status: 'done', durationMs: 0 });
        break;
      }
      default:
        if (isTerminal(event)) endWith(event.runId);
    }
  }
  return calls;
}

function conclude(
  call: Open | undefined,
  event: EventOf<'tool.execute.end' | 'tool.execute.error'>,
  log: ToolLog,
): void {
  if (!call) return;
  const ran = log.of(call);
  call.durationMs = event.durationMs;
  if (event.type === 'tool.execute.end') {
    call.status = 'done';
    call.result = ran ? ran.result : event.outputSummary;
    return;
  }
  const { kind, message } = event.error;
  call.error = { kind, message };
  call.status = ran === undefined && beforeTheTool.has(kind) ? 'refused' : 'failed';
}
