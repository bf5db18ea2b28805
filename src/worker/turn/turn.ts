import { defined } from '../../shared/base/collections.ts';
import { asRunError, assertNever, RunError } from '../../shared/base/errors.ts';
import { LlmError, runErrorFrom } from '../llm/errors.ts';
import {
  recordEntry,
  TurnSuspension,
  type StopReason,
  type SuspendedWait,
  type Turn,
  type TurnDeps,
  type TurnOutcome,
  type TurnSpec,
} from './turn-ports.ts';
import type { BatchEnd } from '../tools/execute/run-batch.ts';
import { refusalOf } from './compaction/compaction.ts';
import { clip } from '../../shared/base/text.ts';
import { afterClosing, land, landingReason } from './landing.ts';
import { makeMedia } from './media/media-step.ts';
import { callModel } from './model-step.ts';
import { askAboutLoop, breakLoop, heedLoopDecision, noProgress } from './loop.ts';
import { nextMove, type Move, type MoveRules } from './next-move.ts';
import { readOutput } from './output.ts';
import { readBefore } from './read-before.ts';
import { continueFrom, type TurnState, hasOpenCalls } from '../../shared/contract/journal/fold.ts';
import { lastShown } from './shown-text.ts';
import type { ToolHost } from '../tools/execute/batch.ts';

export type { TurnDeps, TurnOutcome, TurnSpec } from './turn-ports.ts';

/**
 * Takes a turn from where its journal stands to its end: model, tools, model, until an answer, a limit or a stop. Every
 * expected end is a value; it never rejects. When `signal` aborts, the outcome is `cancelled`, or `failed` with the
 * signal's reason where that is another RunError; nothing else that went wrong meanwhile counts.
 */
export async function runTurn(
  spec: TurnSpec,
  from: TurnState,
  deps: TurnDeps,
  signal: AbortSignal,
): Promise<TurnOutcome> {
  const turn: Turn = {
    spec,
    deps,
    signal: spec.closingAnswer && deps.landing ? AbortSignal.any([signal, deps.landing]) : signal,
    growing: continueFrom(from),
    shownText: '',
    restsUntilStep: 0,
    inCalls: false,
  };
  if (turn.growing.state.closing) return afterClosing(turn);
  const ended = await takeSteps(turn);
  const reason = ended.status === 'failed' ? landingReason(turn, ended.error) : undefined;
  if (ended.status !== 'failed' || reason === undefined) return ended;
  // The limit of time that is left now is the last one.
  const last = { ...turn, signal };
  if (signal.aborted) return interrupted(last, signal.reason);
  const stop = deps.stopRequested?.();
  return stop ? { status: 'stopped', reason: stop, state: ended.state } : await land(last, reason, ended);
}

/** One step after the other. */
async function takeSteps(turn: Turn): Promise<TurnOutcome> {
  const { spec, deps, signal } = turn;
  const { state } = turn.growing;
  const rules = rulesOf(spec, deps);
  const { compaction } = deps;
  const serving = compaction?.requests?.serve({ refusal: () => refusalOf(state, compaction) });
  try {
    for (;;) {
      signal.throwIfAborted();
      const move = nextMove(state, spec.limits, rules);
      const stop = stopBefore(move, turn);
      if (stop) return { status: 'stopped', reason: stop, state };
      if ((move.kind === 'call_model' || move.kind === 'complete') && (await listenToUser(turn))) continue;
      switch (move.kind) {
        case 'call_model':
          await suspected('model', turn, () => (deps.media ? makeMedia(turn, deps.media) : callModel(turn)));
          break;
        case 'run_tools': {
          const end = await suspected('calls', turn, () => runTools(turn));
          if (end.kind === 'suspended') {
            const { kind: _, ...wait } = end;
            // Decisions may come while the run is not suspended yet, or again: about other calls of the same step.
            return { status: 'suspended', wait: { ...wait, ...defined({ joinWaitQueue: deps.decisionsCame }) }, state };
          }
          if (end.kind === 'failed') return failed(turn, end.error);
          if (end.kind === 'degraded') return degraded(turn, end.text);
          break;
        }
        case 'hand_off':
          return { status: 'handed_off', to: move.to, state };
        case 'complete':
          return completed(turn);
        case 'repair':
          // From here on every worker goes on with the next step.
          await recordEntry(turn, { t: 'repair', step: state.step, problem: move.problem });
          break;
        case 'break_loop': {
          const { finding, action } = move;
          if (action === 'suspend') return { status: 'suspended', wait: askAboutLoop(turn, finding), state };
          await breakLoop(turn, finding, action);
          break;
        }
        case 'await_loop_decision': {
          const decided = await heedLoopDecision(turn, move.ask);
          if (decided === 'go') break;
          if (decided instanceof RunError) return failed(turn, decided);
          return {
            status: 'suspended',
            wait: { ...decided, ...defined({ joinWaitQueue: deps.decisionsCame }) },
            state,
          };
        }
        case 'fail_loop':
          return failed(turn, noProgress(turn, move.finding));
        case 'degrade':
          return degraded(turn, move.text);
        case 'fail':
          return failed(turn, move.error);
        default:
          assertNever(move);
      }
    }
  } catch (thrown) {
    return interrupted(turn, thrown);
  } finally {
    serving?.[Symbol.dispose]();
  }
}

/** What the next move is decided by. */
function rulesOf(spec: TurnSpec, { tools }: TurnDeps): MoveRules {
  const { loopGuard, people } = spec;
  const traitsOf = (name: string) => tools.traitsOf(name);
  return { ...spec, loop: loopGuard && { ...loopGuard, traitsOf, asksPeople: people !== undefined } };
}

async function suspected<T>(kind: 'model' | 'calls', { deps }: Turn, work: () => Promise<T>): Promise<T> {
  return deps.suspect ? await deps.suspect.run(kind, work) : await work();
}

/** A drain waits for the end of the step; a hand-over may leave calls to the next worker, if none has begun. */
function stopBefore(move: Move, { deps, growing }: Turn): StopReason | undefined {
  if (move.kind !== 'call_model' && move.kind !== 'run_tools') return undefined;
  const begun = move.kind === 'run_tools' && growing.state.calls.some((call) => call.status !== 'todo');
  const reason = begun ? undefined : deps.stopRequested?.();
  return move.kind === 'run_tools' && reason === 'drain' ? undefined : reason;
}

/** Takes what the user said meanwhile into the conversation. Answers whether there was something. */
async function listenToUser(turn: Turn): Promise<boolean> {
  const { deps, growing } = turn;
  const messages = (await deps.readInbox?.(growing.state.steered)) ?? [];
  if (messages.length === 0) return false;
  for (const { id, text } of messages) deps.emit({ type: 'agent.steered', messageId: id, text: clip(text, maxShown) });
  await recordEntry(turn, { t: 'steered', messages: [...messages] });
  return true;
}

const maxShown = 4_000;

function completed(turn: Turn): TurnOutcome {
  const { state } = turn.growing;
  const { text = '', finishReason = 'stop' } = state.answer ?? {};
  const end = { status: 'completed', text, finishReason, emptyResponse: text === '', degraded: false, state } as const;
  if (state.media.length > 0) return { ...end, emptyResponse: false, media: state.media };
  if (!turn.spec.outputSchema) return end;
  const output = readOutput(text, turn.spec.outputSchema, turn.spec.outputValidation);
  return output.kind === 'valid' ? { ...end, structured: output.value } : failed(turn, output.error);
}

function failed({ growing: { state }, shownText, spec }: Turn, error: RunError): TurnOutcome {
  const engaged = state.attempts.some((attempt) => attempt.outcome !== 'skipped');
  return { status: 'failed', error, engaged, partialText: shownText || lastShown(state, spec), state };
}

function degraded({ growing: { state } }: Turn, text: string): TurnOutcome {
  return { status: 'completed', text, finishReason: 'error', emptyResponse: false, degraded: true, state };
}

/** The signal decides first: whatever failed after it was raised may have failed because of it. */
function interrupted(turn: Turn, thrown: unknown): TurnOutcome {
  const { signal, growing, deps } = turn;
  if (!signal.aborted) {
    if (thrown instanceof TurnSuspension) return { status: 'suspended', wait: thrown.wait, state: growing.state };
    const wait = breakerWait(turn, thrown);
    if (wait) return { status: 'suspended', wait, state: growing.state };
    const error = thrown instanceof LlmError ? runErrorFrom(thrown) : asRunError(thrown);
    if (turn.spec.llmFailure === 'degrade') {
      if (error.code === 'policy_denied') return degraded(turn, error.message);
      if (thrown instanceof LlmError) return degraded(turn, `LLM call failed: ${deps.redactor.text(error.message)}`);
    }
    return failed(turn, error);
  }
  const { reason } = signal;
  if (reason instanceof RunError && reason.code !== 'cancelled') return failed(turn, reason);
  return {
    status: 'cancelled',
    partialText: turn.shownText || lastShown(growing.state, turn.spec),
    state: growing.state,
  };
}

/** With the default cooldown of 30 s about an hour. */
const maxBreakerWaits = 120;

function breakerWait({ spec, deps, growing }: Turn, thrown: unknown): SuspendedWait | undefined {
  if (!spec.waitsForBreaker || !(thrown instanceof LlmError)) return undefined;
  if (growing.state.suspensions >= maxBreakerWaits) return undefined;
  // The last attempt may be the one that opened it, or its probe: then nothing was refused yet.
  const last = growing.state.attempts.at(-1);
  const openedIt = thrown.retryable && last !== undefined && deps.isDown?.(last.provider, last.model);
  if (thrown.code !== 'circuit_open' && !openedIt) return undefined;
  const now = deps.clock.now();
  const { provider, message, retryAfterMs = 1_000 } = thrown;
  const reason = 'provider_limit';
  const item = { kind: reason, id: provider, requestedAt: new Date(now).toISOString(), reason: message } as const;
  return { reason, pending: [item], resumeAtMs: now + retryAfterMs };
}

/** The attempt that gave the current step its answer. */
function answeredBy({ attempts, step }: TurnState): number | undefined {
  const last = attempts.findLast((one) => one.step === step && one.outcome === 'succeeded' && !one.purpose);
  return last?.attemptNumber;
}

/** Runs what is open of the current step's calls. The end of the step is emitted together with its last result. */
async function runTools(turn: Turn): Promise<BatchEnd> {
  const { spec, deps, signal, growing } = turn;
  const { state } = growing;
  // The answer that asked for them says so in the same write, unless they waited for a worker since then.
  if (!turn.inCalls && !deps.suspect?.calls) await deps.record([], 'calls');
  turn.inCalls = false;
  // No await before the write is asked for: the events would leave without it.
  const record: ToolHost['record'] = async (entries, events = []) => {
    for (const event of events) deps.emit(event);
    for (const entry of entries) growing.add(entry);
    if (state.answer && !hasOpenCalls(state)) {
      const { usage, finishReason } = state.answer;
      deps.emit({ type: 'step.end', stepNumber: state.step, usage, finishReason });
    }
    await deps.record(entries, hasOpenCalls(state) ? undefined : 'idle');
  };
  const host: ToolHost = {
    step: state.step,
    attemptNumber: answeredBy(state),
    maxParallel: spec.limits.maxParallelTools,
    maxDelegated: spec.limits.subagentFanoutPerStep,
    unknownCalls: state.unknownCalls,
    denials: state.denials,
    knownDenials: state.knownDenials,
    messages: state.messages,
    past: readBefore(spec, state),
    promoted: state.promoted,
    withdrawn: state.loop.withdrawn,
    asked: state.asked,
    clock: deps.clock,
    redactor: deps.redactor,
    emit: (event) => deps.emit(event),
    record,
  };
  return await deps.tools.run(state.calls, host, signal);
}
