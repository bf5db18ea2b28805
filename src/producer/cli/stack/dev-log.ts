import type { WriteStream } from 'node:tty';
import { dim, red, yellow } from '../show/paint.ts';
import { oneLine } from '../../../shared/base/words.ts';

/** Facts that every line has, or that the head of a pretty line shows already. */
const headFields: ReadonlySet<string> = new Set(['level', 'time', 'service', 'pid', 'msg']);
const maxFact = 160;
const loud: ReadonlySet<unknown> = new Set(['warn', 'error', 'fatal']);

interface LogLine {
  readonly name: string;
  readonly line: string;
}

/**
 * The logs of the stack's processes on one output. Until it is opened the lines are kept, so that what a person has to read
 * first comes first; a terminal then gets those that warn, another output all of them.
 */
export class DevLog {
  readonly #stdout: WriteStream;
  #kept: LogLine[] | undefined = [];

  constructor(stdout: WriteStream) {
    this.#stdout = stdout;
  }

  add(name: string, line: string): void {
    if (this.#kept) this.#kept.push({ name, line });
    else this.#write({ name, line });
  }

  open(): void {
    const kept = this.#kept ?? [];
    this.#kept = undefined;
    for (const entry of kept) if (!this.#stdout.isTTY || loud.has(parse(entry.line)?.['level'])) this.#write(entry);
  }

  #write({ name, line }: LogLine): void {
    this.#stdout.write(`${this.#stdout.isTTY ? prettyLogLine(this.#stdout, name, line) : line}\n`);
  }
}

/** A line of a process's JSON log as a person reads it; a line that is not JSON as it is. */
function prettyLogLine(stream: WriteStream, name: string, line: string): string {
  const entry = parse(line);
  if (!entry) return `${dim(stream, name)} ${line}`;
  const time = typeof entry['time'] === 'string' ? entry['time'].slice(11, 19) : '';
  const facts = Object.entries(entry)
    .filter(([field]) => !headFields.has(field))
    .map(([field, value]) => `${field}=${oneLine(factOf(value), maxFact)}`);
  const message = typeof entry['msg'] === 'string' ? entry['msg'] : '';
  const head = dim(stream, `${time} ${name.padEnd(8)}`);
  return `${head} ${levelOf(stream, entry['level'])}${message} ${dim(stream, facts.join(' '))}`.trimEnd();
}

function parse(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    // Text that only looks like JSON is shown as the text that it is.
    return undefined;
  }
}

function levelOf(stream: WriteStream, level: unknown): string {
  if (level === 'error' || level === 'fatal') return `${red(stream, level)} `;
  return level === 'warn' ? `${yellow(stream, level)} ` : '';
}

function factOf(value: unknown): string {
  if (typeof value === 'string') return value;
  const isError = typeof value === 'object' && value !== null && 'message' in value;
  return isError ? String(value.message) : JSON.stringify(value);
}
