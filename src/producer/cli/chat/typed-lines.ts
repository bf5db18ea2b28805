import { createInterface, type Interface } from 'node:readline/promises';
import { untilStopped } from '../../client/stop-signal.ts';
import type { Cli } from '../cli.ts';

/** Lines that wait to be taken; a pipe that has more waits. */
const enough = 100;

interface Keyboard {
  /** Ctrl-C at a terminal, where it is a key and not a signal. */
  readonly onInterrupt: () => void;
  /** What is on the screen must end before a prompt: the user begins to type in the middle of it. */
  readonly makeRoom: () => void;
}

/** Lines from stdin. At a terminal there is a prompt, and what is written while the user types waits for the end of the line. */
export class TypedLines implements Disposable {
  readonly isTerminal: boolean;
  readonly #reader: Interface;
  readonly #lines: string[] = [];
  #waiting: (() => void)[] = [];
  #ended = false;
  #prompt: string | undefined;
  #promptShown = false;
  readonly #output: Cli['stdout'];
  #news = Promise.withResolvers<void>();

  /** `output` is where the prompt goes. */
  constructor(input: Cli['stdin'], output: Cli['stdout'], { onInterrupt, makeRoom }: Keyboard) {
    this.#output = output;
    this.isTerminal = input.isTTY && output.isTTY;
    this.#reader = createInterface({ input, terminal: this.isTerminal, output: this.isTerminal ? output : undefined });
    this.#reader.on('line', (line) => this.#take(line));
    this.#reader.on('close', () => this.#end());
    this.#reader.on('SIGINT', () => {
      this.#forgetLine();
      onInterrupt();
    });
    if (!this.isTerminal) return;
    // Before the key shows: it goes behind a prompt on a line of its own.
    input.prependListener('keypress', (key: string | undefined) => {
      if (this.#promptShown || this.#ended || key === undefined || key < ' ') return;
      makeRoom();
      this.#showPrompt('> ');
    });
    // After the line has changed: an emptied one delays nothing.
    input.on('keypress', () => this.#flush());
  }

  /** The next line; undefined when there is none any more, or the signal aborts first. */
  async next(stop: AbortSignal): Promise<string | undefined> {
    while (this.#lines.length === 0 && !this.#ended && !stop.aborted) await untilStopped(this.#news.promise, stop);
    if (stop.aborted) return undefined;
    const line = this.#lines.shift();
    if (!this.#ended && this.#lines.length < enough) this.#reader.resume();
    return line;
  }

  /** Writes now, or once the user is not in the middle of a line. */
  show(write: () => void): void {
    this.#waiting.push(write);
    this.#flush();
  }

  /** Shows a prompt whenever nothing else is to be shown; none for undefined. */
  ask(prompt: string | undefined): void {
    this.#prompt = prompt;
    this.#flush();
  }

  [Symbol.dispose](): void {
    if (!this.#ended) this.#reader.close();
  }

  #flush(): void {
    if (this.#isTyping) return;
    const writes = this.#waiting;
    this.#waiting = [];
    const isOld = this.#promptShown && (writes.length > 0 || this.#prompt !== this.#reader.getPrompt());
    if (isOld) this.#erasePrompt();
    for (const write of writes) write();
    if (this.#prompt !== undefined && !this.#promptShown) this.#showPrompt(this.#prompt);
  }

  get #isTyping(): boolean {
    return this.isTerminal && !this.#ended && this.#reader.line !== '';
  }

  /** What is typed so far is dropped, as in a shell. */
  #forgetLine(): void {
    this.#reader.write(null, { ctrl: true, name: 'e' });
    this.#reader.write(null, { ctrl: true, name: 'u' });
    this.#flush();
  }

  #showPrompt(prompt: string): void {
    if (!this.isTerminal || this.#ended) return;
    this.#reader.setPrompt(prompt);
    this.#reader.prompt();
    this.#promptShown = true;
  }

  #erasePrompt(): void {
    this.#output.write('\r\u001b[2K');
    this.#promptShown = false;
  }

  #take(line: string): void {
    this.#promptShown = false;
    // The next prompt comes when what this line asks for is under way.
    this.#prompt = undefined;
    this.#lines.push(line);
    if (this.#lines.length >= enough) this.#reader.pause();
    this.#notify();
  }

  #end(): void {
    if (this.#promptShown) this.#output.write('\n');
    this.#ended = true;
    this.#promptShown = false;
    this.#flush();
    this.#notify();
  }

  #notify(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}
