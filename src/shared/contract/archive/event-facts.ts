import { defined } from '../../base/collections.ts';
import { isRecord, jsonOr, jsonText } from '../../base/json.ts';
import type { Redactor } from '../../base/redact.ts';
import type { EventOf, RunEvent } from '../event.ts';
import type { FlowDecision } from '../flow.ts';
import type { Attempt } from '../journal/journal.ts';
import { isFirstToken } from './archived-run.ts';
import type { CallView, PolicyView } from './run-steps.ts';
import { shownArgs } from './shown.ts';
import type { CallDraft, InnerDraft, InnerEntry, StepDraft, StepDrafts } from './step-drafts.ts';

/** Adds to the steps of a journal what only the events of the run know: times, findings, and what no entry says yet. */
export class EventFacts {
  /** What rules said about model calls, and about runs that no call starts. */
  readonly policy: PolicyView[] = [];
  /** Children of a fan-out, and whose agents their events name. */
  readonly childAgents = new Map<string, string | undefined>();
  readonly #drafts: StepDrafts;
  readonly #redactor: Redactor;
  readonly #starts = new Map<CallDraft | InnerDraft, number>();
  /** Numbers of the last step that began, and of the last that was complete. */
  #current: number | undefined;
  #complete = 0;
  #attempt: Attempt | undefined;

  constructor(drafts: StepDrafts, redactor: Redactor) {
    this.#drafts = drafts;
    this.#redactor = redactor;
  }

  add(event: RunEvent): void {
    const step = this.#current === undefined ? undefined : this.#drafts.step(this.#current);
    if (step && isFirstToken(event.type)) step.firstTokenAt ??= event.timestamp;
    switch (event.type) {
      case 'step.start':
        return this.#began(event);
      case 'step.reset': {
        const reset = this.#drafts.step(event.stepNumber);
        reset.resets = (reset.resets ?? 0) + 1;
        delete reset.firstTokenAt;
        return;
      }
      case 'step.end':
        return this.#ended(event);
      case 'text.complete':
        if (step && !step.answer) step.answer = { text: event.text, finishReason: 'stop' };
        return;
      case 'llm.call':
        return this.#attempted(event, step);
      case 'cost.updated':
        return this.#paid(event, step);
      case 'agent.model.fellback': {
        const { timestamp: at, from, to, reason } = event;
        this.#drafts.step(event.stepNumber).fallbacks.push({ at, from, to, reason });
        return;
      }
      case 'handoff':
        // The journal says so as well, before the step that follows; without it nothing else does.
        if (this.#drafts.steps.every(({ handoff }) => handoff?.to !== event.toAgentId))
          this.#drafts.handedOff(event.fromAgentId, event.toAgentId);
        return;
      case 'policy.decision':
        return this.#judged(event);
      case 'dataflow.flagged':
        return this.#flowed(event, 'flagged');
      case 'dataflow.asked':
        return this.#flowed(event, 'asked');
      case 'dataflow.blocked':
        return this.#flowed(event, 'blocked');
      case 'dataflow.declassified':
        return this.#flowed(event, 'declassified');
      case 'agent.fanout.spawned':
        for (const child of event.children) this.childAgents.set(child, this.childAgents.get(child));
        return;
      case 'subagent.event':
        if (isRecord(event.event) && typeof event.event['agentId'] === 'string')
          this.childAgents.set(event.childRunId, event.event['agentId']);
        return;
      default:
        return this.#ofCall(event);
    }
  }

  #ofCall(event: RunEvent): void {
    switch (event.type) {
      case 'tool.execute.start':
        return this.#callStarted(event);
      case 'tool.execute.end':
      case 'tool.execute.error':
        return this.#callEnded(event);
      case 'tool.approval.granted':
      case 'tool.approval.denied':
        return this.#decided(event);
      default:
    }
  }

  #began({ stepNumber, model, timestamp }: EventOf<'step.start'>): void {
    this.#current = stepNumber;
    const step = this.#drafts.step(stepNumber);
    step.startedAt ??= timestamp;
    step.model ??= model;
  }

  #ended({ stepNumber, usage, finishReason, timestamp }: EventOf<'step.end'>): void {
    const step = this.#drafts.step(stepNumber);
    this.#complete = stepNumber;
    step.endedAt = timestamp;
    step.usage ??= usage;
    if (step.answer && step.attempts.length === 0) step.answer.finishReason = finishReason;
  }

  /** Of a step that the journal has no attempts of yet. */
  #attempted(event: EventOf<'llm.call'>, step: StepDraft | undefined): void {
    this.#attempt = undefined;
    if (!step) return;
    const { attemptNumber, provider, model, outcome, requestId, providerRequestId, latencyMs } = event;
    const isKnown = (one: Attempt) =>
      one.attemptNumber === attemptNumber && one.outcome === outcome && one.model === model;
    if (step.attempts.some(isKnown)) return;
    const about = { attemptNumber, step: step.stepNumber, provider, model, outcome, requestId, providerRequestId };
    const rest = { costMicrocents: 0, priced: false, latencyMs, finishReason: event.finishReason, error: event.error };
    this.#attempt = defined({ ...about, ...rest }) as Attempt;
    step.attempts.push(this.#attempt);
  }

  #paid(event: EventOf<'cost.updated'>, step: StepDraft | undefined): void {
    const attempt = this.#attempt;
    if (!attempt || !step || event.attemptNumber !== attempt.attemptNumber) return;
    const { costMicrocents, priced } = event;
    Object.assign(attempt, { costMicrocents, priced });
    step.costMicrocents += costMicrocents;
    this.#attempt = undefined;
  }

  #callStarted(event: EventOf<'tool.execute.start'>): void {
    const { timestamp, parentToolCallId } = event;
    const call = parentToolCallId === undefined ? this.#ownCall(event) : this.#innerCall(event, parentToolCallId);
    if (!call) return;
    const starts = (this.#starts.get(call) ?? 0) + 1;
    this.#starts.set(call, starts);
    call.startedAt = timestamp;
    if (starts > 1) call.starts = starts;
  }

  /** The journal has no calls that a provider makes itself, and none of an answer that is not written yet. */
  #ownCall({ toolCallId, toolName, args }: EventOf<'tool.execute.start'>): CallDraft | undefined {
    const known = this.#callOf(toolCallId);
    if (known) return known;
    const step = this.#drafts.steps.findLast(({ stepNumber }) => stepNumber <= (this.#current ?? Infinity));
    if (!step) return undefined;
    const { length: index } = step.calls;
    const call = { toolCallId, toolName, index, ...shownArgs(args, this.#redactor), policy: [], flow: [], inner: [] };
    step.calls.push(call);
    return call;
  }

  #innerCall({ toolCallId, toolName, args }: EventOf<'tool.execute.start'>, parent: string): InnerDraft | undefined {
    const script = this.#callOf(parent);
    if (!script) return undefined;
    const known = script.inner.find((one) => one.toolCallId === toolCallId);
    if (known) return known;
    const { length: index } = script.inner;
    const call = { toolCallId, toolName, index, ...shownArgs(args, this.#redactor), policy: [], flow: [], inner: [] };
    script.inner.push(call);
    return call;
  }

  #callEnded(event: EventOf<'tool.execute.end' | 'tool.execute.error'>): void {
    const { toolCallId, parentToolCallId, timestamp, durationMs } = event;
    const script = parentToolCallId === undefined ? undefined : this.#callOf(parentToolCallId);
    const call = script ? script.inner.find((one) => one.toolCallId === toolCallId) : this.#callOf(toolCallId);
    if (!call) return;
    call.endedAt = timestamp;
    call.durationMs = durationMs;
    if (event.type === 'tool.execute.error') {
      if (!call.result) call.error ??= event.error;
      return;
    }
    if (!call.error) call.result ??= { content: event.outputSummary, cut: true };
    if (call.result && event.resultHandle !== undefined) call.result.handle = event.resultHandle;
  }

  #decided(event: EventOf<'tool.approval.granted' | 'tool.approval.denied'>): void {
    const call = this.#callOf(event.toolCallId);
    if (!call || call.decision) return;
    const { timestamp: at, reason, edited } = event;
    const by = event.by === undefined ? [] : event.by.split(', ');
    call.decision = defined({ granted: event.type === 'tool.approval.granted', by, at, reason, edited });
  }

  #judged(event: EventOf<'policy.decision'>): void {
    const { timestamp: at, subject, action, ruleId, reason, subagentName, toolCallId } = event;
    const call = toolCallId === undefined ? undefined : this.#findCall(toolCallId);
    const stepNumber = subject === 'llm_call' ? this.#complete + 1 : undefined;
    const view = defined({ at, subject, action, ruleId, reason, subagentName, stepNumber });
    (call?.policy ?? this.policy).push(view);
  }

  #flowed(
    event: Pick<EventOf<'dataflow.flagged'>, 'timestamp' | 'toolCallId' | 'mode' | 'findings' | 'by'>,
    decision: FlowDecision,
  ): void {
    const { timestamp: at, mode, findings, by } = event;
    this.#findCall(event.toolCallId)?.flow.push(defined({ at, decision, mode, findings, by }));
  }

  #callOf(toolCallId: string): CallDraft | undefined {
    return this.#drafts.callOf(toolCallId, this.#current);
  }

  #findCall(toolCallId: string): Pick<CallDraft, 'policy' | 'flow'> | undefined {
    const own = this.#callOf(toolCallId);
    if (own) return own;
    const scripts = this.#drafts.steps.flatMap(({ calls }) => calls);
    return scripts.flatMap(({ inner }) => inner).findLast((call) => call.toolCallId === toolCallId);
  }
}

/** Puts what the journal knows of a script's calls to what its events say; of calls without events it is all there is. */
export function addInnerResults(call: CallDraft, entries: Iterable<InnerEntry>, redactor: Redactor): void {
  const taken = new Set<InnerDraft>();
  for (const { toolName, args, outcome, sensitivity } of entries) {
    let inner = call.inner.find((one) => one.toolName === toolName && !taken.has(one));
    if (!inner) {
      const { length: index } = call.inner;
      const toolCallId = `${call.toolCallId}/${index + 1}`;
      inner = { toolCallId, toolName, index, ...shownArgs(args, redactor), policy: [], flow: [], inner: [] };
      call.inner.push(inner);
    }
    taken.add(inner);
    const result = outcome === undefined || inner.error ? undefined : resultIn(outcome, sensitivity, redactor);
    if (result) inner.result = { ...inner.result, ...result };
    if (inner.result && result) delete inner.result.cut;
  }
}

/** What a script got for a call that was made. */
function resultIn(
  outcome: string,
  sensitivity: InnerEntry['sensitivity'],
  redactor: Redactor,
): CallView['result'] | undefined {
  const value = jsonOr(outcome);
  if (!isRecord(value) || value['ok'] !== true) return undefined;
  if (sensitivity === 'secret') return { content: '', sensitivity, withheld: true };
  const got = value['value'];
  const content = redactor.text(typeof got === 'string' ? got : jsonText(got ?? null));
  return defined({ content, sensitivity });
}
