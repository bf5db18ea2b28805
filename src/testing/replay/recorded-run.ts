import { canonicalJson, jsonOr } from '../../shared/base/json.ts';
import type { RunExport } from '../../shared/contract/archive/run-export.ts';
import type { CallView, StepView } from '../../shared/contract/archive/run-steps.ts';
import type { PendingView } from '../../shared/contract/event.ts';
import type { ScriptedAnswer } from '../../worker/llm/backends/scripted.ts';
import { LlmError, llmErrorKind } from '../../worker/llm/errors.ts';
import type { LlmRequest } from '../../worker/llm/provider.ts';
import type { PersonVerdict } from '../../worker/local/drive.ts';
import { ToolError } from '../../worker/tools/tool-error.ts';
import type { Tool, ToolContext } from '../../worker/tools/tool.ts';

/** What a run was answered, by models, tools and people, for one that is to do the same again. */
export class RecordedRun {
  readonly #export: RunExport;
  /** By run of the replay. Runs that work for another one are matched by their agent, in order. */
  readonly #bound = new Map<string, RunExport>();
  readonly #free: RunExport[];
  /** How often a call with these arguments was answered, where calls have other ids than the recorded ones. */
  readonly #taken = new Set<CallView>();
  /** Steps that were asked for beyond the last recorded one. */
  readonly askedBeyond: number[] = [];

  constructor(recorded: RunExport) {
    this.#export = recorded;
    this.#free = allChildren(recorded);
  }

  /** The recorded run that a run of the replay repeats. The first one that asks is the run itself. */
  of(runId: string, agent: string | undefined): RunExport | undefined {
    const known = this.#bound.get(runId);
    if (known) return known;
    const index = this.#free.findIndex(({ run }) => run.agent === agent);
    const found = this.#bound.size === 0 ? this.#export : index < 0 ? undefined : this.#free.splice(index, 1)[0];
    if (found) this.#bound.set(runId, found);
    return found;
  }

  /** The recorded answer to a request. */
  answer(request: LlmRequest): ScriptedAnswer {
    const [runId = '', kind, number] = request.requestId.split(':');
    const name = request.metadata?.['agent_name'];
    const recorded = this.of(runId, typeof name === 'string' ? name : undefined);
    const step = recorded?.steps.steps.find(({ stepNumber }) => String(stepNumber) === number);
    if (kind !== 'step') return { text: step?.compaction?.summary ?? summaryIn(recorded) };
    if (!step) {
      this.askedBeyond.push(Number(number));
      throw new LlmError(
        'bad_request',
        'replay',
        `the recorded run has no step ${number}: the model is asked once more`,
      );
    }
    return answerOf(step);
  }

  /** The result that a call had. Throws the error that it had. */
  result({ name, checkOutput }: Tool, args: unknown, context: ToolContext): unknown {
    const call = this.callOf(context.runId, { toolCallId: context.toolCallId, toolName: name, args });
    if (!call) throw new ToolError('execution_failed', `the recorded run has no result for this call of ${name}`);
    this.#taken.add(call);
    if (call.error) throw new ToolError(call.error.kind, call.error.message);
    const { content = '' } = call.result ?? {};
    // Without a schema of its output the tool's answer is the text that the model saw.
    return checkOutput === undefined ? content : jsonOr(content, content);
  }

  /** A call of the recorded run: the same one by its id, or else one of the same tool with the same arguments. */
  callOf(
    runId: string,
    { toolCallId, toolName, args }: { readonly toolCallId: string; readonly toolName: string; readonly args: unknown },
  ): CallView | undefined {
    const calls = callsIn(this.#bound.get(runId));
    const same = calls.find((call) => call.toolCallId === toolCallId && call.toolName === toolName);
    const wanted = canonicalJson(args);
    const isAlike = (call: CallView) => call.toolName === toolName && canonicalJson(call.args) === wanted;
    return same ?? calls.find((call) => isAlike(call) && !this.#taken.has(call)) ?? calls.find(isAlike);
  }

  /** What a person decided about a call. Undefined: no person was asked. */
  verdict({ toolCallId = '', toolName = '', args }: PendingView, runId: string): PersonVerdict | undefined {
    const call = this.callOf(runId, { toolCallId, toolName, args });
    if (!call?.decision) return undefined;
    const { granted, reason, edited, answered } = call.decision;
    if (answered) return { answer: call.result?.content ?? '' };
    const updatedArgs = edited ? (call.args as Record<string, unknown>) : undefined;
    return { granted, ...(reason !== undefined && { reason }), ...(updatedArgs && { updatedArgs }) };
  }
}

/** All calls of a run, those of its scripts left out. */
export function callsIn(recorded: RunExport | undefined): readonly CallView[] {
  return recorded?.steps.steps.flatMap(({ calls }) => calls) ?? [];
}

/** The runs that worked for one, and those that worked for them. */
export function allChildren({ children }: RunExport): RunExport[] {
  return children.flatMap((child) => [child, ...allChildren(child)]);
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
