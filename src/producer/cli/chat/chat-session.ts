import { asRunError, assertNever, RunError } from '../../../shared/base/errors.ts';
import { approval, denial } from '../../client/run-handle.ts';
import { exitCodeFor, exitCodes, type ExitCode } from '../cli.ts';
import { commandOf, helpLines, type Command } from './command.ts';
import type { Talk } from './talk.ts';
import type { TypedLines } from './typed-lines.ts';

/** What a conversation is made of. */
interface ChatSession {
  readonly talk: Talk;
  readonly lines: TypedLines;
  readonly note: (text: string) => void;
  readonly interrupts: Interrupts;
  /** Lines take effect as they come, also while an answer is under way; else each waits for what was before it. */
  readonly isEager: boolean;
}

/**
 * Takes line after line until there is none, `/quit`, or an interrupt. Where stdin is no terminal it then waits for the last answer,
 * and the exit code is that of its run.
 */
export async function runChatSession(conversation: ChatSession): Promise<ExitCode> {
  const { talk, lines, interrupts } = conversation;
  for (;;) {
    invite(conversation);
    const line = await lines.next(interrupts.reading);
    if (line === undefined) break;
    interrupts.forget();
    if ((await obey(line, conversation)) === 'quit') break;
  }
  if (!lines.isTerminal) await lastAnswer(conversation);
  if (interrupts.ending.aborted) return exitCodes.interrupted;
  return lines.isTerminal ? exitCodes.ok : talk.outcome;
}

/** Shows a prompt where it is the user's turn. */
export function invite({ talk, lines }: Pick<ChatSession, 'talk' | 'lines'>): void {
  const isTurn = talk.current === undefined || talk.waitsForPeople;
  lines.ask(talk.question ? 'answer> ' : isTurn ? '> ' : undefined);
}

async function lastAnswer({ talk, note, interrupts: { ending } }: ChatSession): Promise<void> {
  const hasEnded = () => talk.current === undefined;
  await talk.until(() => hasEnded() || talk.waitsForPeople, ending);
  if (!hasEnded() && !ending.aborted)
    note('The input has ended, and the answer waits for people: see millrace approvals');
  await talk.until(hasEnded, ending);
}

/** Prints what is wrong with a line, and goes on with the next. */
async function obey(line: string, conversation: ChatSession): Promise<'quit' | undefined> {
  const { talk, note, isEager, interrupts } = conversation;
  try {
    const command = commandOf(line);
    if (!isEager) await talk.until(isTime(command, talk), interrupts.reading);
    if (command.kind === 'quit') return interrupts.reading.aborted ? undefined : 'quit';
    if (!interrupts.reading.aborted) await act(command, conversation);
    return undefined;
  } catch (error) {
    if (interrupts.ending.aborted) return undefined;
    const { code, message } = asRunError(error);
    talk.outcome = exitCodeFor(error);
    note(`${code}: ${message}`);
    return undefined;
  }
}

/** When a line from a pipe may take effect. */
function isTime({ kind }: Command, talk: Talk): () => boolean {
  const isIdle = () => talk.current === undefined;
  if (kind === 'cancel') return () => true;
  if (kind === 'send') return () => isIdle() || talk.question !== undefined;
  if (kind === 'approve' || kind === 'deny') return () => isIdle() || talk.waitsForPeople;
  return isIdle;
}

async function act(command: Exclude<Command, { kind: 'quit' }>, { talk, note }: ChatSession): Promise<void> {
  switch (command.kind) {
    case 'nothing':
      return undefined;
    case 'send':
      return await talk.send(command.text);
    case 'approve':
      return await talk.decide((run) => approval(run, {}));
    case 'deny':
      return await talk.decide((run) => denial(run, command.reason === '' ? {} : { reason: command.reason }));
    case 'cancel':
      return await talk.cancel();
    case 'title':
      return await talk.name(command.text);
    case 'new':
      if (talk.current !== undefined) throw new RunError('concurrent_run', 'an answer is under way: /cancel it first');
      return note(`Thread ${talk.begin()}.`);
    case 'help':
      return helpLines.forEach((text) => note(text));
    default:
      return assertNever(command);
  }
}

/** What Ctrl-C does: once it stops the answer under way, twice it ends the conversation. A typed line begins the count anew. */
export class Interrupts {
  readonly #reading = new AbortController();
  readonly #ending = new AbortController();
  #count = 0;

  /** Aborts when no more lines are to be taken. */
  get reading(): AbortSignal {
    return this.#reading.signal;
  }

  /** Aborts when the conversation is to end at once. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  forget(): void {
    this.#count = 0;
  }

  leave(): void {
    this.#reading.abort();
    this.#ending.abort();
  }

  press({ talk, note, lines: { isTerminal } }: Pick<ChatSession, 'talk' | 'note' | 'lines'>): void {
    this.#count++;
    const stopped = talk.current;
    if (this.#count > 1 || (stopped === undefined && !isTerminal)) return this.leave();
    if (stopped === undefined) return note('Ctrl-C again, or /quit, leaves.');
    note('cancelling; Ctrl-C again leaves');
    talk.cancel().catch((error: unknown) => note(asRunError(error).message));
    if (isTerminal) return;
    this.#reading.abort();
    void talk.until(() => talk.current !== stopped, this.ending).then(() => this.leave());
  }
}
