import type { RunEvent, PendingView } from '../../../shared/contract/event.ts';
import type { Cli } from '../cli.ts';
import { shownJson } from '../cli.ts';
import { bold, dim } from './paint.ts';
import { oneLine } from '../../../shared/base/words.ts';
import { RunPrinter } from './run-printer.ts';
import { changeLines, flowLines } from './pending.ts';
import { isAboutCall, pendingNameOf, waitsForPeople } from '../../../shared/contract/decisions.ts';

/** Events of every message, which a chat does not show. */
const hidden: ReadonlySet<string> = new Set(['run.queued', 'run.started']);

/** Prints a conversation: each run as it happens, and what people are asked. With `json` one event a line. */
export class ChatPrinter {
  readonly #cli: Pick<Cli, 'stdout' | 'stderr'>;
  readonly #json: boolean;
  #run: RunPrinter;

  constructor(cli: Pick<Cli, 'stdout' | 'stderr'>, json: boolean) {
    this.#cli = cli;
    this.#json = json;
    this.#run = new RunPrinter(cli);
  }

  /** The events that follow are those of another run. */
  begin(): void {
    this.#run = new RunPrinter(this.#cli);
  }

  print(event: RunEvent): void {
    const { stdout, stderr } = this.#cli;
    if (this.#json) return void stdout.write(shownJson(event));
    if (!hidden.has(event.type)) this.#run.print(event);
    const shown = event.type === 'subagent.event' ? (event.event as RunEvent) : event;
    if (shown.type !== 'run.suspended') return;
    for (const hint of chatHints(shown.pending)) stderr.write(`${bold(stderr, hint)}\n`);
  }

  /** A dim line beside the conversation. */
  note(text: string): void {
    if (this.#json) this.#cli.stderr.write(`${dim(this.#cli.stderr, text)}\n`);
    else this.#run.note(text);
  }

  /** Something that is typed is about to show. */
  endLine(): void {
    this.#run.endLine();
  }
}

/** What people are asked, and how to answer it in a chat, a line each; none for waits that end by themselves. */
function chatHints(pending: readonly PendingView[]): readonly string[] {
  const questions = pending.filter(({ kind }) => kind === 'user_input');
  const calls = pending.filter((item) => isAboutCall(item) && item.kind !== 'user_input');
  const hasMoney = pending.some((item) => waitsForPeople(item) && item.kind === 'budget');
  return [
    ...questions.flatMap(({ reason = 'asks you something' }) => reason.split('\n')),
    questions.length > 0 && `Your next line answers ${questions.length > 1 ? 'the first of them' : 'it'}.`,
    ...calls.flatMap((item) => [...changeLines(item), ...flowLines(item)]),
    calls.length > 0 && `/approve lets ${calls.map(nameOf).join(' and ')} run, /deny REASON does not.`,
    hasMoney && '/approve goes over the cap for this step, /deny ends the run.',
  ].filter((hint) => hint !== false);
}

function nameOf(item: PendingView): string {
  return oneLine(item.toolName ?? pendingNameOf(item), 80);
}
