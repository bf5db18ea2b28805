import type { RunEvent } from '../../../../../shared/contract/event.ts';

/** What the model writes at this moment. */
export interface LiveText {
  readonly stepNumber: number;
  readonly model: string;
  readonly text: string;
  readonly reasoning: string;
  /** Characters that were left out before what is kept. */
  readonly cut: number;
}

/** A page shows the end of what comes; all of it is in the step once that is complete. */
export const maxLiveChars = 64 * 1024;

export const noText: LiveText = { stepNumber: 0, model: '', text: '', reasoning: '', cut: 0 };

/** The text after one more event. */
export function withEvent(live: LiveText, event: RunEvent): LiveText {
  switch (event.type) {
    case 'step.start':
      return { ...noText, stepNumber: event.stepNumber, model: event.model };
    case 'step.reset':
      return { ...noText, stepNumber: event.stepNumber, model: live.model };
    case 'text.delta':
      return bounded({ ...live, model: event.model, text: live.text + event.delta });
    case 'reasoning.delta':
      return { ...live, model: event.model, reasoning: (live.reasoning + event.delta).slice(-maxLiveChars) };
    case 'text.complete':
      return bounded({ ...live, text: event.text, cut: 0 });
    default:
      return live;
  }
}

function bounded(live: LiveText): LiveText {
  const over = live.text.length - maxLiveChars;
  return over <= 0 ? live : { ...live, text: live.text.slice(over), cut: live.cut + over };
}
