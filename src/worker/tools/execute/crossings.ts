import type { ChildEnd } from '../../../shared/contract/control.ts';
import { denialBy, withDenials, type LeakFinding } from '../../../shared/contract/agent/lateral-leak.ts';
import { clip } from '../../../shared/base/text.ts';
import { crossMessages, crossValue } from '../../guards/leaks/texts.ts';
import type { ChildSpec, InnerOutcome } from '../tool.ts';
import { leakEvent } from '../leak-event.ts';
import type { Batch } from './batch.ts';

/** What a call has another agent do, as it crosses. Its findings are published with the wait for that agent, once. */
export function sent(spec: ChildSpec, isNew: boolean, { context, host, onWait }: Batch): ChildSpec {
  const { crossings } = context;
  if (!crossings) return spec;
  // The same on every worker that plans this child: what the step's other calls were denied is not known to its model.
  const check = (text: string) => crossings.to(spec.agentId, text, host.knownDenials ?? []);
  const { text: input, leak } = check(spec.input);
  const history = spec.history && crossMessages(spec.history, check);
  if (isNew) onWait.push(...[...(leak ? [leak] : []), ...(history?.leaks ?? [])].map(leakEvent));
  return { ...spec, input, history: history?.value };
}

/** What another agent has answered, as it crosses back, or why it did not. */
export interface Received {
  readonly value: unknown;
  readonly leaks: readonly LeakFinding[];
}

export function received(answer: unknown, end: ChildEnd, { context, host }: Batch): Received {
  const { crossings } = context;
  if (!crossings) return { value: answer, leaks: [] };
  const denials = [...(host.denials ?? []), ...(end.leaks?.denials ?? [])];
  return crossValue(answer, (text) => crossings.back(text, denials));
}

const maxNameChars = 256;

/** Keeps for the entry of a script's call what was denied to the script. */
export function noteDenial(index: number, name: string, outcome: InnerOutcome, { context, denied }: Batch): void {
  const kind = outcome.ok ? undefined : denialBy(outcome.kind);
  if (!kind || !context.notesDenials) return;
  // The journal knows the active agent.
  const denial = { agentId: '', kind, toolName: clip(name, maxNameChars) };
  denied.set(index, withDenials(denied.get(index) ?? [], [denial]));
}
