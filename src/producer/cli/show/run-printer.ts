import { isTerminal, type RunEvent } from '../../../shared/contract/event.ts';
import type { Cli } from '../cli.ts';
import { lineOf } from './event-line.ts';
import { dim, printable, red } from './paint.ts';

/** Prints one run as it happens: the model's text on stdout, everything else as dim lines on stderr. */
export class RunPrinter {
  readonly #cli: Pick<Cli, 'stdout' | 'stderr'>;
  /** A line of text is begun and not ended on stdout. */
  #midLine = false;
  /** Of the step that is going on. */
  #stepHasText = false;
  #runHasText = false;

  constructor(cli: Pick<Cli, 'stdout' | 'stderr'>) {
    this.#cli = cli;
  }

  print(event: RunEvent): void {
    if (event.type === 'text.delta') return this.#text(event.delta);
    if (event.type === 'step.reset') return this.#discard(event.reason);
    if (event.type === 'step.start') this.#stepHasText = false;
    if (event.type === 'step.end') return this.endLine();
    if (isTerminal(event)) return this.#end(event);
    const line = lineOf(event);
    if (line !== undefined) this.note(line);
  }

  /** A dim line on stderr, on a line of its own where both streams share a terminal. */
  note(text: string): void {
    const { stdout, stderr } = this.#cli;
    if (stdout.isTTY) this.endLine();
    stderr.write(`${dim(stderr, text)}\n`);
  }

  #text(text: string): void {
    const { stdout } = this.#cli;
    const shown = stdout.isTTY ? printable(text) : text;
    if (shown === '') return;
    stdout.write(shown);
    this.#stepHasText = true;
    this.#runHasText = true;
    this.#midLine = !shown.endsWith('\n');
  }

  /** What is out cannot be taken back, not from a pipe either: so it is marked in place. */
  #discard(reason: string): void {
    if (!this.#stepHasText) return;
    this.#stepHasText = false;
    this.endLine();
    this.#cli.stdout.write(`[the text above is discarded: ${reason}]\n`);
  }

  #end(event: RunEvent): void {
    // The deltas are gone when a user reads an old run; its result is not.
    if (!this.#runHasText && event.type === 'run.completed') this.#text(event.result.text);
    this.endLine();
    const { stderr } = this.#cli;
    const line = `${lineOf(event)} · ${event.runId}`;
    stderr.write(`${event.type === 'run.completed' ? dim(stderr, line) : red(stderr, line)}\n`);
  }

  /** Ends the line of text that is begun, if one is: something else follows. */
  endLine(): void {
    if (this.#midLine) this.#cli.stdout.write('\n');
    this.#midLine = false;
  }
}
