import { isAnswer } from '../../shared/state/run/children/children.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { ChildAnswer, OrchestrationHost } from './orchestration.ts';

/** What the run has answered. Throws as it failed. */
export function answerText(answer: ChildAnswer, who: string): string {
  if (answer.kind === 'never') throw new RunError('cancelled', `${who} was not asked`);
  const { status, text, error } = answer.end;
  if (isAnswer(answer.end)) return text;
  throw new RunError(error?.code ?? 'internal', `${who} did not answer: ${error?.message ?? `its run is ${status}`}`);
}

/** No time passes in an orchestration: its host stops a child whose time is up, and the child answers. */
export function stoppedClock(host: OrchestrationHost): Clock {
  return {
    now: () => host.now(),
    monotonic: () => host.now(),
    sleep: (_ms, signal) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      }),
  };
}
