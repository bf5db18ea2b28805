import type { ChildEnd } from '../../shared/contract/control.ts';
import { clean, labelOfEnd } from '../../shared/contract/flow-label.ts';
import { unionOf, type FlowLabel } from '../../shared/contract/message.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import { FlowMemory } from '../guards/flow/memory.ts';

/** The answers that an orchestration has got, as labels of what it asks next have to know them. */
export class AnswerLabels {
  readonly #asked: readonly string[];
  readonly #ends: ChildEnd[] = [];

  /** Of the run that the orchestration is. */
  constructor({ request }: Pick<RunRecord, 'request'>) {
    this.#asked = [request.input, ...(request.fanOut?.children ?? []).flatMap(({ input }) => input ?? [])];
  }

  add(end: ChildEnd): void {
    this.#ends.push(end);
  }

  /** Labels for what is made of the answers that there are now. */
  labels(): (text: string) => FlowLabel {
    const ends = this.#ends.map((end) => {
      return { text: `${end.text}\n${end.error?.message ?? ''}`, flow: labelOfEnd(end) };
    });
    if (!unionOf(ends.map(({ flow }) => flow))) return () => clean;
    const memory = new FlowMemory(this.#asked, () => false);
    for (const { text, flow } of ends) memory.addLabelled(text, flow);
    return (text) => memory.labelOf(text) ?? clean;
  }
}
