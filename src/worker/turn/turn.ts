import { asRunError, assertNever, RunError } from '../../shared/errors.ts';
import { LlmError, runErrorFrom } from '../llm/errors.ts';
import type { StopReason, Turn, TurnDeps, TurnOutcome, TurnSpec } from './contract.ts';
import { callModel } from './model-step.ts';
import { nextMove, type Move } from './next-move.ts';
import { readOutput } from './output.ts';
import { continueFrom, type TurnState } from './state.ts';
import { runTools } from './tool-step.ts';

export type { TurnDeps, TurnOutcome, TurnSpec } from './contract.ts';

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
  const turn: Turn = { spec, deps, signal, growing: continueFrom(from), shownText: '' };
  const { state } = turn.growing;
  try {
    for (;;) {
      signal.throwIfAborted();
      const move = nextMove(state, spec.limits, spec.toolFailure);
      const stop = stopBefore(move, turn);
      if (stop) return { status: 'stopped', reason: stop, state };
      switch (move.kind) {
        case 'call_model':
          await callModel(turn);
          break;
        case 'run_tools': {
          const end = await runTools(turn);
          if (end.kind === 'suspended')
            return { status: 'suspended', reason: 'unknown_outcome', pending: end.pending, state };
          if (end.kind === 'failed') return failed(turn, end.error);
          break;
        }
        case 'complete':
          return completed(turn);
        case 'degrade':
          return {
            status: 'completed',
            text: move.text,
            finishReason: 'error',
            emptyResponse: false,
            degraded: true,
            state,
          };
        case 'fail':
          return failed(turn, move.error);
        default:
          assertNever(move);
      }
    }
  } catch (thrown) {
    return interrupted(turn, thrown);
  }
}

/** A drain waits for the end of the step; a hand-over may leave calls to the next worker, if none has begun. */
function stopBefore(move: Move, { deps, growing }: Turn): StopReason | undefined {
  if (move.kind !== 'call_model' && move.kind !== 'run_tools') return undefined;
  const begun = move.kind === 'run_tools' && growing.state.calls.some((call) => call.status !== 'todo');
  const reason = begun ? undefined : deps.stopRequested?.();
  return move.kind === 'run_tools' && reason === 'drain' ? undefined : reason;
}

function completed(turn: Turn): TurnOutcome {
  const { state } = turn.growing;
  const { text = '', finishReason = 'stop' } = state.answer ?? {};
  const end = { status: 'completed', text, finishReason, emptyResponse: text === '', degraded: false, state } as const;
  if (!turn.spec.outputSchema) return end;
  const output = readOutput(text, turn.spec.outputSchema);
  return output.kind === 'valid' ? { ...end, structured: output.value } : failed(turn, output.error);
}

function failed({ growing: { state }, shownText }: Turn, error: RunError): TurnOutcome {
  const engaged = state.attempts.some((attempt) => attempt.outcome !== 'skipped');
  return { status: 'failed', error, engaged, partialText: shownText || (state.answer?.text ?? ''), state };
}

/** The signal decides first: whatever failed after it was raised may have failed because of it. */
function interrupted(turn: Turn, thrown: unknown): TurnOutcome {
  const { signal, growing } = turn;
  if (!signal.aborted) return failed(turn, thrown instanceof LlmError ? runErrorFrom(thrown) : asRunError(thrown));
  const { reason } = signal;
  if (reason instanceof RunError && reason.code !== 'cancelled') return failed(turn, reason);
  return { status: 'cancelled', state: growing.state };
}
