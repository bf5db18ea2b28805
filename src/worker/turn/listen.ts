import { defined } from '../../shared/base/collections.ts';
import { assertNever, toolErrorHints } from '../../shared/base/errors.ts';
import type { Attempt } from '../../shared/contract/journal/journal.ts';
import { zeroUsage, type Usage } from '../../shared/contract/money.ts';
import type { ChainCall } from '../llm/chain-call.ts';
import { clip } from '../../shared/base/text.ts';
import type { ShownText } from './shown-text.ts';
import type { Turn } from './turn-ports.ts';
import type { LlmPart } from '../llm/provider.ts';
import { callSummary, shownArgs } from '../tools/execute/args.ts';
import { neutralised } from '../guards/leaks/protocol.ts';
import { outputSummary } from '../tools/execute/result.ts';
import type { EventOf } from '../../shared/contract/event.ts';

const maxErrorChars = 500;

/** Emits what a model call does while it does it, and gathers its attempts, scrubbed, in `attempts`. */
export function listen(turn: Turn, step: number, attempts: Attempt[], shown: ShownText): ChainCall {
  const { deps, growing } = turn;
  const relayed = relayer(turn);
  let thinking = false;
  return {
    step,
    firstAttemptNumber: attemptsMade(turn) + 1,
    failedBefore: growing.state.attempts
      .slice(growing.state.attemptsBeforeRetry)
      .filter((attempt) => attempt.step === step && attempt.outcome === 'failed' && !attempt.purpose),
    admit: deps.admit,
    onPart(part, model) {
      switch (part.type) {
        case 'text':
          return shown.push(part.delta, model);
        case 'reasoning':
          if (!thinking) deps.emit({ type: 'agent.thinking' });
          thinking = true;
          return shown.think(part.delta, model);
        case 'tool_call_start':
          return deps.emit({ type: 'tool.call.start', toolCallId: part.id, toolName: part.name });
        case 'tool_call_delta':
          // A credential cannot be found in a piece of it: the arguments are shown when they are whole.
          return;
        case 'tool_relayed_call':
        case 'tool_relayed_result':
          return relayed(part);
        default:
          assertNever(part);
      }
    },
    onAttempt: (attempt) => takeAttempt(attempt, turn, attempts),
    onFallback: (transition) => deps.emit({ type: 'agent.model.fellback', ...transition }),
    onReset() {
      shown.reset();
      thinking = false;
      deps.emit({ type: 'step.reset', stepNumber: step, reason: 'stream_broke' });
    },
  };
}

/** Emits an attempt and adds it, scrubbed, to those that the journal does not hold yet. */
export function takeAttempt(raw: Attempt, turn: Turn, attempts: Attempt[]): void {
  const attempt = scrubbed(raw, turn);
  attempts.push(attempt);
  const { model, attemptNumber, outcome, costMicrocents, priced, usage = zeroUsage } = attempt;
  turn.deps.emit(
    defined({
      type: 'llm.call',
      model,
      provider: attempt.provider,
      requestId: attempt.requestId,
      providerRequestId: attempt.providerRequestId,
      attemptNumber,
      outcome,
      tokensIn: usage.input + usage.cached + usage.cacheWrite,
      tokensOut: usage.output,
      latencyMs: attempt.latencyMs,
      finishReason: attempt.finishReason,
      error: attempt.error,
    }),
  );
  if (outcome === 'skipped') return;
  turn.deps.emit({
    type: 'cost.updated',
    model,
    ...costTokens(usage),
    costMicrocents,
    cumulativeCostMicrocents: attempts.reduce(
      (sum, one) => sum + one.costMicrocents,
      turn.growing.state.costMicrocents,
    ),
    attemptNumber,
    priced,
    usageReported: attempt.usage !== undefined,
  });
}

function scrubbed(attempt: Attempt, { deps }: Turn): Attempt {
  const { error } = attempt;
  if (!error) return attempt;
  return { ...attempt, error: { ...error, message: clip(deps.redactor.text(error.message), maxErrorChars) } };
}

/** Attempts of the run that reached a provider; skipped candidates take no number. */
export function attemptsMade({ growing }: Turn): number {
  return growing.state.attempts.filter(({ outcome }) => outcome !== 'skipped').length;
}

const maxOpenCalls = 1_000;

type RelayedPart = Extract<LlmPart, { type: 'tool_relayed_call' | 'tool_relayed_result' }>;

/** Emits the calls of tools that a provider runs itself, like those that run here, and runs none of them. */
function relayer({ deps, spec: { protocol } }: Pick<Turn, 'deps' | 'spec'>): (part: RelayedPart) => void {
  const open = new Map<string, { readonly name: string; readonly startedMs: number }>();
  return (part) => {
    const toolCallId = part.id;
    if (part.type === 'tool_relayed_call') {
      // A box that never answers its calls must not fill the memory: beyond the bound calls are not emitted.
      if (open.has(toolCallId) || open.size >= maxOpenCalls) return;
      const args = shownArgs(part.args, deps.redactor);
      open.set(toolCallId, { name: part.name, startedMs: deps.clock.monotonic() });
      deps.emit({ type: 'tool.call.start', toolCallId, toolName: part.name });
      deps.emit({ type: 'tool.call.end', toolCallId, finalArgs: args });
      const summary = callSummary(part.name, args);
      deps.emit({ type: 'tool.execute.start', toolCallId, toolName: part.name, args, summary, relayed: true });
      return;
    }
    const call = open.get(toolCallId);
    if (!call) return;
    open.delete(toolCallId);
    const durationMs = Math.max(0, Math.round(deps.clock.monotonic() - call.startedMs));
    const ended = { toolCallId, toolName: call.name, durationMs, relayed: true } as const;
    const summary = outputSummary(part.output, deps.redactor);
    const text = protocol ? neutralised(summary, protocol) : summary;
    if (!part.isError) deps.emit({ type: 'tool.execute.end', ...ended, success: true, outputSummary: text });
    else {
      const error = { kind: 'execution_failed', message: text, hint: toolErrorHints.execution_failed } as const;
      deps.emit({ type: 'tool.execute.error', ...ended, success: false, error });
    }
  };
}

/** The tokens of a call as `cost.updated` names them. */
export type CostTokens = Pick<
  EventOf<'cost.updated'>,
  'inputTokens' | 'outputTokens' | 'cachedTokens' | 'cacheWriteTokens'
>;

/** Kinds of tokens that there were none of are left out, but for input and output. */
export function costTokens({ input, output, cached, cacheWrite }: Usage): CostTokens {
  return {
    inputTokens: input,
    outputTokens: output,
    ...(cached > 0 && { cachedTokens: cached }),
    ...(cacheWrite > 0 && { cacheWriteTokens: cacheWrite }),
  };
}

/** The same backwards. */
export function usageOfCost({
  inputTokens: input,
  outputTokens: output,
  cachedTokens: cached = 0,
  cacheWriteTokens: cacheWrite = 0,
}: CostTokens): Usage {
  return { input, output, cached, cacheWrite, total: input + output + cached + cacheWrite };
}
