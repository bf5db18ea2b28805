import { readFileSync, rmSync } from 'node:fs';
import { open, readlink, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { z } from 'zod';
import { systemClock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import { jsonOr, jsonText } from '../../shared/base/json.ts';
import { newNonce } from '../../shared/base/ids.ts';

const refreshMs = 5_000;
/** A lock that was not refreshed for so long was left behind, also by a process that is not seen from here. */
export const leftBehindMs = 60_000;

/** Removing a lock takes far less: a process that takes longer is gone. */
const turnMs = 5_000;
const retryMs = 50;

const lockNote = z.object({
  host: z.string(),
  pid: z.int().min(1),
  since: z.string(),
  /** Where `pid` means this process: one boot of one machine, and there one container. */
  machine: z.string(),
  nonce: z.string(),
});
type LockNote = z.infer<typeof lockNote>;

/** What is in a lock file. The note is absent in one that is just being made, and in what is no lock. */
interface Found {
  readonly text: string;
  readonly note: LockNote | undefined;
  readonly ageMs: number;
}

/** The right to write one output file: `OUT.lock` beside it, for as long as this process refreshes it. */
export class OutputLock implements AsyncDisposable {
  readonly #out: string;
  readonly #text: string;
  readonly #timer: NodeJS.Timeout;
  #provenAt = Date.now();
  #lost = false;
  /** Also when a second Ctrl-C ends this process at once. */
  readonly #onExit = () => {
    if (readOr(lockPath(this.#out)) === this.#text) rmSync(lockPath(this.#out), { force: true });
  };

  private constructor(out: string, text: string) {
    this.#out = out;
    this.#text = text;
    process.once('exit', this.#onExit);
    this.#timer = setInterval(() => void this.#refresh().catch(() => undefined), refreshMs).unref();
  }

  /**
   * Takes the lock of an output file, also one whose process is gone. Throws `validation`, with who has it, while another
   * process writes the file.
   */
  static async take(out: string): Promise<OutputLock> {
    const since = new Date().toISOString();
    const note: LockNote = {
      host: hostname(),
      pid: process.pid,
      since,
      machine: await thisMachine(),
      nonce: newNonce(),
    };
    const text = `${jsonText(note)}\n`;
    for (;;) {
      if (await isMade(lockPath(out), text)) return new OutputLock(out, text);
      const found = await find(lockPath(out));
      if (!found) continue;
      if (!isLeftBehind(found, note.machine)) throw taken(out, found);
      await removeLeftBehind(lockPath(out), note.machine);
    }
  }

  /** Throws `validation` when another process has taken over, because this one stood still for too long. */
  async prove(): Promise<void> {
    if (Date.now() - this.#provenAt > 2 * refreshMs) await this.#refresh();
    if (!this.#lost) return;
    const advice = 'give the same command again when that has ended: no line runs twice';
    throw new RunError(
      'validation',
      `${this.#out}: another command has taken over while this one stood still; ${advice}`,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    process.off('exit', this.#onExit);
    const found = await find(lockPath(this.#out)).catch(() => undefined);
    if (found?.text === this.#text) await rm(lockPath(this.#out), { force: true });
  }

  async #refresh(): Promise<void> {
    const path = lockPath(this.#out);
    const found = await find(path);
    // Removed by hand: it is made again, unless another process was faster.
    this.#lost = found ? found.text !== this.#text : !(await isMade(path, this.#text));
    if (this.#lost) return;
    const now = new Date();
    await utimes(path, now, now);
    this.#provenAt = now.getTime();
  }
}

export function lockPath(out: string): string {
  return `${out}.lock`;
}

async function isMade(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text, { flag: 'wx' });
    return true;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    const why = `${path} cannot be made (${code}), and without it two commands could write one file`;
    throw new RunError('validation', `${why}: choose an output file in a folder that can be written`, { cause });
  }
}

/** Undefined when there is none any more. */
async function find(path: string): Promise<Found | undefined> {
  try {
    // Opened first: a network file system answers with a time that it remembers otherwise.
    await using file = await open(path, 'r');
    const text = await file.readFile('utf8');
    const { mtimeMs } = await file.stat();
    return { text, note: lockNote.safeParse(jsonOr(text)).data, ageMs: Date.now() - mtimeMs };
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new RunError('validation', `${path} cannot be read (${code}): remove it, or choose another output file`, {
      cause,
    });
  }
}

function isLeftBehind({ note, ageMs }: Found, machine: string): boolean {
  return ageMs > leftBehindMs || (note?.machine === machine && !isAlive(note.pid));
}

/**
 * Removes a lock that was left behind, and no other: of several that want it only one may look and remove at a time, or the
 * lock that the first of them has made meanwhile would go, too.
 */
async function removeLeftBehind(path: string, machine: string): Promise<void> {
  const turn = `${path}.turn`;
  if (!(await isMade(turn, ''))) {
    const other = await find(turn);
    if (other && other.ageMs > turnMs) await rm(turn, { force: true });
    else await systemClock.sleep(retryMs);
    return;
  }
  try {
    const found = await find(path);
    if (found && isLeftBehind(found, machine)) await rm(path, { force: true });
  } finally {
    await rm(turn, { force: true });
  }
}

function taken(out: string, { note }: Found): RunError {
  const who = note ? `the process ${note.pid} on ${note.host}, since ${note.since}` : `as ${lockPath(out)} says`;
  const advice = 'wait for it or stop it, and give the same command again, or choose another output file';
  const gone = `A lock that is no longer refreshed is taken over after ${leftBehindMs / 1_000} s.`;
  return new RunError('validation', `${out}: another batch command writes it (${who}); ${advice}. ${gone}`);
}

/** A name that another boot, machine or container does not have: there a process id means another process. */
async function thisMachine(): Promise<string> {
  const boot = readFile('/proc/sys/kernel/random/boot_id', 'utf8');
  const parts = await Promise.allSettled([boot, readlink('/proc/self/ns/pid')]);
  return [hostname(), ...parts.map((part) => (part.status === 'fulfilled' ? part.value.trim() : ''))].join(' ');
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function readOr(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
