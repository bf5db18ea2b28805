import type { ErrorCode } from '../../shared/base/errors.ts';
import { canonicalJson, isRecord, jsonOr } from '../../shared/base/json.ts';
import type { RunExport } from '../../shared/contract/archive/run-export.ts';
import type { CallView, StepView } from '../../shared/contract/archive/run-steps.ts';
import type { PendingView, RunEvent } from '../../shared/contract/event.ts';
import { isTerminalStatus } from '../../shared/contract/plain/ends.ts';
import type { ScriptedAnswer } from '../../worker/llm/backends/scripted.ts';
import { LlmError, llmErrorKind } from '../../worker/llm/errors.ts';
import type { LlmRequest } from '../../worker/llm/provider.ts';
import type { PersonVerdict } from '../../worker/local/drive.ts';
import { isAskAbout } from '../../worker/tools/execute/ask-id.ts';
import { ToolError } from '../../worker/tools/tool-error.ts';
import type { Tool, ToolContext } from '../../worker/tools/tool.ts';
import { CurrentSteps } from '../current-steps.ts';

/** A call of the replay, and the names by which the recorded run may have called its tool. */
interface WantedCall {
  /** Its own id, or the one under which people decide about it. */
  readonly toolCallId: string;
  readonly names: readonly string[];
  readonly args: unknown;
}

/** A call of a model, or of a script. */
type AnyCall = CallView | CallView['inner'][number];

interface FoundCall {
  readonly stepNumber: number;
  readonly call: AnyCall;
}

/** What a run was answered, by models, tools and people, for one that is to do the same again. */
export class RecordedRun {
  readonly #export: RunExport;
  /** By run of the replay: the recorded one that it repeats. */
  readonly #bound = new Map<string, RunExport>();
  /** By run of the replay: the call that it does for its parent. */
  readonly #asked = new Map<string, { readonly toolName: string; readonly args: unknown }>();
  /** Of the runs of the replay. */
  readonly #steps = new CurrentSteps();
  /** Calls whose results were given. */
  readonly #taken = new Set<AnyCall>();

  constructor(recorded: RunExport) {
    this.#export = recorded;
  }

  /** By run of the replay, parents first: the recorded runs that were repeated. */
  get repeated(): ReadonlyMap<string, RunExport> {
    return this.#bound;
  }

  /** Watches the replay: its first run repeats the recorded one, every other run a child of what its parent repeats. */
  saw(event: RunEvent): void {
    const { runId, parentRunId, agentId } = event;
    this.#steps.saw(event);
    if (!this.#bound.has(runId)) {
      const found = parentRunId === undefined ? this.#export : this.#childFor(runId, parentRunId, agentId);
      if (found) this.#bound.set(runId, found);
    }
    if (event.type !== 'run.suspended') return;
    for (const { kind, id, toolName, args } of event.pending)
      if (kind === 'child' && id !== undefined && toolName !== undefined) this.#asked.set(id, { toolName, args });
  }

  /** The step that a run of the replay is at. */
  stepOf(runId: string): number {
    return this.#steps.of(runId);
  }

  /** The recorded run that did the same call. Where no call is like it: the next one of the agent. */
  #childFor(runId: string, parentRunId: string, agent: string | undefined): RunExport | undefined {
    const parent = this.#bound.get(parentRunId);
    const bound = new Set(this.#bound.values());
    const free = parent?.children.filter((child) => child.run.agent === agent && !bound.has(child)) ?? [];
    const asked = this.#asked.get(runId);
    const input = inputIn(asked?.args);
    const like = callsIn(parent).filter(
      ({ toolName, args }) => toolName === asked?.toolName && inputIn(args) === input,
    );
    return free.find(({ run }) => like.some(({ childRunId }) => childRunId === run.runId)) ?? free[0];
  }

  /** The recorded answer to a request. */
  answer(request: LlmRequest): ScriptedAnswer {
    const [runId = '', kind, number] = request.requestId.split(':');
    const recorded = this.#bound.get(runId);
    const step = recorded?.steps.steps.find(({ stepNumber }) => String(stepNumber) === number);
    if (kind !== 'step') return { text: step?.compaction?.summary ?? summaryIn(recorded) };
    if (step) return answerOf(step);
    const why = recorded
      ? `the recorded run has no step ${number}: the model is asked once more`
      : 'the export does not have the run that did this call';
    throw new LlmError('bad_request', 'replay', why);
  }

  /** The result that a call had. Throws the error that it had. */
  result({ name, source, checkOutput }: Tool, args: unknown, context: ToolContext): unknown {
    // A tool of a server may have been called with the server's name in front.
    const names = source ? [`${source.server}__${name}`, name] : [name];
    const call = this.callOf(context.runId, { toolCallId: context.toolCallId, names, args });
    if (!call) throw new ToolError('execution_failed', `the recorded run has no result for this call of ${name}`);
    this.#taken.add(call);
    if (call.error) throw new ToolError(call.error.kind, call.error.message);
    if (!call.result) throw new ToolError('execution_failed', `the recorded call of ${name} has no result`);
    const { content } = call.result;
    // Without a schema of its output the tool's answer is the text that the model saw. A script saw a value.
    const isText = checkOutput === undefined && callsIn(this.#bound.get(context.runId)).some((own) => own === call);
    return isText ? content : jsonOr(content, content);
  }

  /**
   * A call of the recorded run: the same one by its id, that of the same step first, or else one of the same tool with the same
   * arguments.
   */
  callOf(runId: string, { toolCallId, names, args }: WantedCall): AnyCall | undefined {
    const step = this.stepOf(runId);
    const calls = (this.#bound.get(runId)?.steps.steps ?? []).flatMap(({ stepNumber, calls: own }) =>
      own.flatMap((call): FoundCall[] => [call, ...call.inner].map((found) => ({ stepNumber, call: found }))),
    );
    const named = calls.filter(({ call }) => names.includes(call.toolName));
    const same = named.filter(({ call, stepNumber }) => isAskAbout(toolCallId, call.toolCallId, stepNumber));
    const wanted = canonicalJson(args);
    const alike = named.filter(({ call }) => canonicalJson(call.args) === wanted);
    const isFree = ({ call }: FoundCall) => !this.#taken.has(call);
    const here = same.find(({ stepNumber }) => stepNumber === step);
    return (here ?? same.find(isFree) ?? same.at(-1) ?? alike.find(isFree) ?? alike[0])?.call;
  }

  /** What a person decided about a call. Undefined: no person was asked. */
  verdict({ toolCallId = '', toolName = '', args }: PendingView, runId: string): PersonVerdict | undefined {
    const call = this.callOf(runId, { toolCallId, names: [toolName], args });
    if (!call?.decision) return undefined;
    const { granted, reason, edited, answered } = call.decision;
    if (answered) return { answer: call.result?.content ?? '' };
    const updatedArgs = edited ? (call.args as Record<string, unknown>) : undefined;
    return { granted, ...(reason !== undefined && { reason }), ...(updatedArgs && { updatedArgs }) };
  }
}

/** How a run was stopped from outside, so that nothing is known of what it would have done. Undefined: it came to its own end. */
export function stoppedBy({ status, error }: Pick<RunExport['run'], 'status' | 'error'>): string | undefined {
  if (status === 'cancelled') return 'was cancelled';
  if (!isTerminalStatus(status)) return 'has not ended';
  return error && outerEnds.has(error.code) ? `was stopped (${error.code})` : undefined;
}

/** Time, a crash or an operator ended the run: a replay, in which nothing takes time, does not meet these. */
const outerEnds: ReadonlySet<string> = new Set<ErrorCode>([
  'batch_expired',
  'cancelled',
  'deadline_exceeded',
  'queue_expired',
  'run_aborted',
  'run_timeout',
  'worker_lost',
]);

/** All calls of a run, those of its scripts left out. */
export function callsIn(recorded: RunExport | undefined): readonly CallView[] {
  return recorded?.steps.steps.flatMap(({ calls }) => calls) ?? [];
}

/** The runs that worked for one, and those that worked for them. */
export function allChildren({ children }: RunExport): RunExport[] {
  return children.flatMap((child) => [child, ...allChildren(child)]);
}

/** The names of the tools in a recorded definition. */
export function recordedToolNames(agent: RunExport['agent']): string[] {
  const tools: readonly unknown[] = Array.isArray(agent?.['toolDefinitions']) ? agent['toolDefinitions'] : [];
  return tools.filter(isRecord).map(({ name }) => String(name));
}

function inputIn(args: unknown): string {
  return canonicalJson(isRecord(args) ? (args['input'] ?? args['message'] ?? null) : null);
}

/** As a script gives it. A step without an answer failed as its last attempt did. */
function answerOf({ answer, attempts, calls, usage }: StepView): ScriptedAnswer {
  if (!answer) {
    const failed = attempts.findLast(({ error }) => error !== undefined)?.error;
    const kind = llmErrorKind.exclude(['cancelled']).safeParse(failed?.kind).data ?? 'unknown';
    return { error: { kind, message: failed?.message ?? 'the recorded run got no answer' } };
  }
  return {
    text: answer.text,
    reasoning: answer.reasoning,
    finishReason: answer.finishReason,
    usage,
    toolCalls: calls.map(({ toolCallId: id, toolName: name, args, modelArgs }) => ({
      id,
      name,
      args: modelArgs ?? args,
    })),
  };
}

function summaryIn(recorded: RunExport | undefined): string {
  return recorded?.steps.steps.find(({ compaction }) => compaction)?.compaction?.summary ?? 'the conversation so far';
}
