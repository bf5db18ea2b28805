import type { LoopGuard } from '../../shared/contract/agent/loop-guard.ts';
import type { LoopAsk, TurnState } from '../../shared/contract/journal/turn-state.ts';
import { findLoop, nextRung, pastCalls, type LoopFinding, type ToolTraits } from '../guards/loop.ts';

/** What the guard decides by: the same for every worker that continues the turn. */
export interface LoopRules extends LoopGuard {
  readonly traitsOf: (name: string) => ToolTraits;
  /** Is there a person to ask? */
  readonly asksPeople: boolean;
}

/** What the loop of the turn does about a run that goes in circles. */
export type LoopMove =
  | { readonly kind: 'break_loop'; readonly finding: LoopFinding; readonly action: 'nudge' | 'withdraw' | 'suspend' }
  /** A person was asked. */
  | { readonly kind: 'await_loop_decision'; readonly ask: LoopAsk }
  | { readonly kind: 'fail_loop'; readonly finding: LoopFinding };

/** Before a model call: a pure function of the state. */
export function loopMove(state: TurnState, rules: LoopRules): LoopMove | undefined {
  const { loop, step, handoffs } = state;
  if (loop.ask) return { kind: 'await_loop_decision', ask: loop.ask };
  // One rung at a time: what else is found in this step counts with the next one.
  const isTaken = [...loop.rungs.values()].some((rung) => rung.step === step);
  if (step === 0 || isTaken || loop.freshFrom === step) return undefined;
  const calls = pastCalls([...state.earlier, ...state.own]);
  const { rungs, freshFrom } = loop;
  const finding = findLoop({ calls, handoffs, step, rungs, freshFrom, traitsOf: rules.traitsOf }, rules);
  if (!finding) return undefined;
  const action = nextRung(rungs, finding);
  return action === 'suspend' && !rules.asksPeople
    ? { kind: 'fail_loop', finding }
    : { kind: 'break_loop', finding, action };
}
