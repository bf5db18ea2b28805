import { readBy } from '../guards/flow/run-labels.ts';
import type { FlowPast } from '../tools/execute/flow-trail.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { TurnSpec } from './turn-ports.ts';

/** All that a run has read before the calls of its current step. */
export function readBefore({ system }: Pick<TurnSpec, 'system'>, state: TurnState): FlowPast {
  return {
    trusted: [system, ...state.edits],
    // The last one is the answer that asks for the calls.
    messages: (from) => readBy(state).slice(from, -1),
  };
}
