import { randomBytes } from 'node:crypto';
import { defined } from '../../../shared/base/collections.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { pendingNameOf, waitsForPeople } from '../../../shared/contract/decisions.ts';
import { asRunError, RunError } from '../../../shared/base/errors.ts';
import { isTerminal, type PendingView, type RunEvent } from '../../../shared/contract/event.ts';
import { runIdForExecution } from '../../../shared/base/ids.ts';
import type { RunRequestInput, RunView } from '../../../shared/contract/run.ts';
import { followUpId } from '../../../shared/state/run/control/inbox.ts';
import type { DecisionInput } from '../../../shared/contract/control.ts';
import type { Millrace } from '../../client/millrace.ts';
import { untilStopped } from '../../client/stop-signal.ts';
import { exitCodeFor, exitCodes, type ExitCode } from '../cli.ts';
import { adviseIfIdle, wentWell } from '../show/watch-run.ts';
import type { OutageWatch } from './outage-watch.ts';

/** When the worker dies after the end of a run and before it creates the next one, another worker creates it. */
const followUpMs = 60_000;
const lookMs = 100;

/** The id of a new thread. */
export function newThreadId(): string {
  return randomBytes(6).toString('hex');
}

/** How each message is sent, and who gets what comes of it. */
interface TalkOptions {
  readonly mill: Millrace;
  readonly watch: OutageWatch;
  /** Who decides about what runs wait for. Undefined: an API key says it. */
  readonly by: string | undefined;
  /** All but the text and the thread. */
  readonly request: Omit<RunRequestInput, 'input' | 'thread' | 'executionId'>;
  readonly onEvent: (event: RunEvent) => void;
  /** A note beside the events. */
  readonly onNote: (text: string) => void;
  /** The events of another run follow. */
  readonly onRun: () => void;
  /** It may be the turn of the user or the agent now. */
  readonly onChange: () => void;
  /** Stops the conversation, not its runs. */
  readonly stop: AbortSignal;
}

/** One conversation on one thread: sends messages, and follows the runs that answer, one after the other. */
export class Talk {
  readonly #options: TalkOptions;
  readonly #queue: string[] = [];
  /** Messages sent to running runs that have not read them yet: the message to its run. */
  readonly #unread = new Map<string, string>();
  /** Messages that a run read before this client knew that they went to it. */
  readonly #readEarly = new Set<string>();
  readonly #ended = new Set<string>();
  readonly #waits: RunWaits = new Map();
  #current: string | undefined;
  #news = Promise.withResolvers<void>();
  /** The exit code that belongs to the last message. */
  outcome: ExitCode = exitCodes.ok;
  thread: string;

  constructor(thread: string, options: TalkOptions) {
    this.thread = thread;
    this.#options = options;
  }

  /** The run that answers. */
  get current(): string | undefined {
    return this.#current;
  }

  /** What the run that answers asks a person. */
  get question(): { readonly runId: string; readonly item: PendingView } | undefined {
    return firstWait(this.#waits, ({ kind }) => kind === 'user_input');
  }

  get waitsForPeople(): boolean {
    return firstWait(this.#waits, waitsForPeople) !== undefined;
  }

  /** Resolves when the condition is true, checked after every change, or when the signal aborts. */
  async until(condition: () => boolean, stop: AbortSignal): Promise<void> {
    while (!condition() && !stop.aborted) await untilStopped(this.#news.promise, stop);
  }

  /** Answers the question that waits, or sends a message. Throws as `Millrace.decide` and `enqueue`, but outlasts an outage. */
  async send(text: string): Promise<void> {
    const { question } = this;
    if (question) return await this.#decide(question.runId, () => answerTo(question.item, text));
    const { mill, watch, request, stop } = this.#options;
    // With an id of its own a message that is sent again, because an answer was lost, is still one message.
    const executionId = `chat:${randomBytes(12).toString('hex')}`;
    const message = { ...request, input: text, thread: this.thread, executionId };
    const { runId } = await watch.again(() => mill.enqueue(message, { signal: stop }));
    const { tenant } = await watch.again(() => mill.whoami());
    const own = runIdForExecution(tenant, executionId);
    if (runId === own) this.#follow(own);
    else this.#wasSteered(runId, own);
  }

  /** A running run got the message instead of a new run. It may have read it, and even have ended, by now. */
  #wasSteered(runId: string, message: string): void {
    if (this.#readEarly.delete(message)) return;
    if (this.#ended.has(runId)) return this.#follow(followUpId(runId, message));
    this.#unread.set(message, runId);
    if (runId !== this.#current && !this.#queue.includes(runId)) this.#follow(runId);
  }

  /** Decides about everything that waits for people. Throws `approval_not_pending` when nothing does. */
  async decide(decision: (run: RunView) => DecisionInput): Promise<void> {
    const asking = [...this.#waits].filter(([, pending]) => pending.some(waitsForPeople)).map(([runId]) => runId);
    if (asking.length === 0) throw new RunError('approval_not_pending', 'nothing waits for a decision');
    for (const runId of asking) await this.#decide(runId, decision);
  }

  /** Gives the thread a title. Throws `not_found` before the first message. */
  async name(title: string): Promise<void> {
    const { mill, watch } = this.#options;
    await watch.again(() => mill.threads.update(this.thread, { title }));
  }

  /** Begins a new thread and answers its id. */
  begin(): string {
    this.thread = newThreadId();
    return this.thread;
  }

  /** Asks the run that answers to stop. Throws `not_found` when none does. */
  async cancel(): Promise<void> {
    const { mill, watch } = this.#options;
    const runId = this.#current;
    if (runId === undefined) throw new RunError('not_found', 'no answer is under way');
    try {
      await watch.again(() => mill.cancel(runId, { reason: 'cancelled in the chat' }));
    } catch (error) {
      if (asRunError(error).code !== 'already_terminal') throw error;
    }
  }

  async #decide(runId: string, decision: (run: RunView) => DecisionInput): Promise<void> {
    const { mill, watch, by } = this.#options;
    const input = decision(await watch.again(() => mill.get(runId)));
    const before = this.#waits.get(runId);
    const { run } = await watch.again(() => mill.decide(runId, input, defined({ by })));
    // The next line may come before the event, or after it.
    if (this.#waits.get(runId) === before) this.#waits.set(runId, run.pending);
    this.#notify();
  }

  #follow(runId: string): void {
    this.#queue.push(runId);
    if (this.#current === undefined) void this.#work();
  }

  async #work(): Promise<void> {
    for (;;) {
      this.#current = this.#queue.shift();
      this.#waits.clear();
      this.#notify();
      const runId = this.#current;
      if (runId === undefined) return;
      try {
        this.#options.onRun();
        this.outcome = await this.#end(runId);
      } catch (error) {
        if (this.#options.stop.aborted) return;
        this.outcome = exitCodeFor(error);
        this.#options.onNote(`${asRunError(error).code}: ${asRunError(error).message}`);
      }
      this.#ended.add(runId);
      this.#queue.unshift(...this.#unreadBy(runId));
    }
  }

  /** Emits the events of a run until its end, across outages. */
  async #end(runId: string): Promise<ExitCode> {
    const { mill, watch, stop } = this.#options;
    let after = 0;
    const begun = systemClock.monotonic();
    using advice = adviseIfIdle(mill, this.#options.onNote);
    return await watch.again(async () => {
      await this.#there(runId, begun);
      for await (const event of mill.events(runId, { after, signal: stop })) {
        after = event.sequenceNumber;
        advice.after(event);
        this.#note(event);
        if (isTerminal(event)) return wentWell(event) ? exitCodes.ok : exitCodes.failed;
      }
      stop.throwIfAborted();
      throw new RunError('internal', `the events of run ${runId} ended before it did`);
    });
  }

  /** The run that answers what an earlier one did not read is created a moment after that one has ended. */
  async #there(runId: string, begun: number): Promise<void> {
    const { mill, stop } = this.#options;
    for (;;) {
      try {
        return void (await mill.get(runId));
      } catch (error) {
        const isLate = systemClock.monotonic() - begun > followUpMs;
        if (asRunError(error).code !== 'run_not_found' || isLate) throw error;
      }
      await systemClock.sleep(lookMs, stop);
    }
  }

  #note(event: RunEvent): void {
    if (event.type === 'agent.steered' && !this.#unread.delete(event.messageId)) this.#readEarly.add(event.messageId);
    noteWaits(this.#waits, event);
    this.#options.onEvent(event);
    this.#notify();
  }

  /** The runs that answer the messages that this one ended without reading. */
  #unreadBy(runId: string): string[] {
    const messages = [...this.#unread].filter(([, run]) => run === runId).map(([message]) => message);
    for (const message of messages) this.#unread.delete(message);
    return messages.map((message) => followUpId(runId, message));
  }

  #notify(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
    this.#options.onChange();
  }
}

function answerTo(item: PendingView, answer: string): DecisionInput {
  return { answers: [{ toolCallId: pendingNameOf(item), answer }] };
}

/** What a run and its children wait for, by run. */
type RunWaits = Map<string, readonly PendingView[]>;

/** Takes note of the waits in an event: of its own run, or of a child. */
function noteWaits(waits: RunWaits, event: RunEvent): void {
  if (event.type === 'subagent.event') return noteWaits(waits, event.event as RunEvent);
  if (event.type === 'run.suspended') waits.set(event.runId, event.pending);
  else if (event.type === 'run.resumed' || event.type === 'run.started' || isTerminal(event)) waits.delete(event.runId);
}

/** The first thing of this kind that a run waits for. */
function firstWait(
  waits: RunWaits,
  suits: (item: PendingView) => boolean,
): { readonly runId: string; readonly item: PendingView } | undefined {
  for (const [runId, pending] of waits) {
    const item = pending.find(suits);
    if (item) return { runId, item };
  }
  return undefined;
}
