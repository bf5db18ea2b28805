import type { RunEvent } from '../../../shared/contract/event.ts';
import type { Cli } from '../cli.ts';
import { chatHints } from './chat-hints.ts';
import { bold, dim } from './paint.ts';
import { RunPrinter } from './run-printer.ts';

/** What every message of a chat goes through, and nobody who talks wants to read. */
const unsaid: ReadonlySet<string> = new Set(['run.queued', 'run.started']);

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
    if (this.#json) return void stdout.write(`${JSON.stringify(event)}\n`);
    if (!unsaid.has(event.type)) this.#run.print(event);
    const told = event.type === 'subagent.event' ? (event.event as RunEvent) : event;
    if (told.type !== 'run.suspended') return;
    for (const hint of chatHints(told.pending)) stderr.write(`${bold(stderr, hint)}\n`);
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
