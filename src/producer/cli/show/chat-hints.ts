import { isAboutCall, pendingNameOf, waitsForPeople } from '../../../shared/contract/decisions.ts';
import type { PendingView } from '../../../shared/contract/event.ts';
import { oneLine, printable } from './paint.ts';

/** What people are asked, and how to answer it in a chat, a line each; none for waits that end by themselves. */
export function chatHints(pending: readonly PendingView[]): readonly string[] {
  const questions = pending.filter(({ kind }) => kind === 'user_input');
  const calls = pending.filter((item) => isAboutCall(item) && item.kind !== 'user_input');
  const hasMoney = pending.some((item) => waitsForPeople(item) && item.kind === 'budget');
  return [
    ...questions.map(({ reason = 'asks you something' }) => printable(reason)),
    ...(questions.length > 0 ? [`Your next line answers ${questions.length > 1 ? 'the first of them' : 'it'}.`] : []),
    ...(calls.length > 0 ? [`/approve lets ${calls.map(nameOf).join(' and ')} run, /deny REASON does not.`] : []),
    ...(hasMoney ? ['/approve goes over the cap for this step, /deny ends the run.'] : []),
  ];
}

function nameOf(item: PendingView): string {
  return oneLine(item.toolName ?? pendingNameOf(item), 80);
}
