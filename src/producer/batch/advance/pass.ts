import { asRunError, RunError, type ErrorInfo } from '../../../shared/base/errors.ts';
import { runIdForExecution } from '../../../shared/base/ids.ts';
import type { BatchRecord, OpenLine } from '../../../shared/contract/batch-record.ts';
import { isTerminalStatus, type RunRequestInput, type RunStatus } from '../../../shared/contract/run.ts';
import type { Accepted } from '../../client/enqueue.ts';
import { executionIdOf } from '../lines/execution-id.ts';
import type { BatchLine } from '../lines/line.ts';
import { submit } from '../submit.ts';
import type { OwnBatch } from './own-batch.ts';

/** Lines that are begun in one go, and their bytes. */
const groupLines = 100;
const groupBytes = 1024 * 1024;

/** A line of the file with what is kept of it while it is open. */
export interface PlacedLine {
  readonly place: number;
  readonly line: BatchLine;
  readonly open: OpenLine;
}

/** What is kept of a line while it is open. */
export function placed(place: number, line: BatchLine, { name, round }: BatchRecord): PlacedLine {
  const { line: number, id, offset, length, key } = line;
  const executionId = executionIdOf(name, key);
  const open = { line: number, id, offset, length, executionId, round: round === 0 ? 0 : undefined };
  return { place, line, open };
}

/** Neighbours together, so many that they are begun in one go. */
export async function* inGroups(own: OwnBatch, wanted: (place: number) => boolean): AsyncGenerator<PlacedLine[]> {
  let group: PlacedLine[] = [];
  let bytes = 0;
  for await (const [place, line] of own.input.all()) {
    own.stop.throwIfAborted();
    if (!wanted(place)) continue;
    group.push(placed(place, line, own.record));
    bytes += line.length;
    if (group.length < groupLines && bytes < groupBytes) continue;
    yield group;
    [group, bytes] = [[], 0];
  }
  if (group.length > 0) yield group;
}

/** One way through the file: begins the lines that have no outcome, while fewer than `maxOpen` are open. */
export class Pass {
  readonly #own: OwnBatch;
  readonly #wanted: (place: number) => boolean;
  readonly #begunAs: Pick<BatchRecord, 'status' | 'round'>;

  constructor(own: OwnBatch, wanted: (place: number) => boolean) {
    this.#own = own;
    this.#wanted = wanted;
    this.#begunAs = own.record;
  }

  /** False: the batch is not as it was when the pass began. */
  async run(): Promise<boolean> {
    for await (const group of inGroups(this.#own, this.#wanted)) if (!(await this.#begin(group))) return false;
    return this.#isSame();
  }

  /** Resolves with true when no line is open any more, with false when the batch is not as it was. */
  async settled(): Promise<boolean> {
    while (this.#own.outstanding.size > 0) {
      if (!this.#isSame()) return false;
      await this.#own.news();
    }
    return this.#isSame();
  }

  #isSame(): boolean {
    const { status, round } = this.#own.record;
    return status === this.#begunAs.status && round === this.#begunAs.round;
  }

  async #begin(group: readonly PlacedLine[]): Promise<boolean> {
    const { stay, ports, outstanding, record } = this.#own;
    for (let rest = group; rest.length > 0;) {
      if (!this.#isSame()) return false;
      const room = record.maxOpen - outstanding.size;
      if (room <= 0) {
        await this.#own.news();
        continue;
      }
      const asked = rest.slice(0, room);
      const answers = await ports.store.begin(stay, asked);
      if (answers === 'lost') throw this.#own.lose();
      if (answers === 'not_now') {
        await this.#own.look();
        return false;
      }
      await this.#submit(asked.filter(({ open }, i) => answers[i] === 'open' && !this.#isFollowed(open)));
      const without = asked.filter((_, i) => answers[i] === 'no_room');
      rest = [...without, ...rest.slice(room)];
      if (without.length > 0) await this.#own.news();
    }
    return true;
  }

  #isFollowed({ executionId }: OpenLine): boolean {
    return this.#own.outstanding.has(runIdForExecution(this.#own.record.tenant, executionId));
  }

  async #submit(lines: readonly PlacedLine[]): Promise<void> {
    const { taking } = this.#own;
    const bad = lines.flatMap(({ place, open, line }) =>
      line.kind === 'bad' ? [{ place, open, error: line.error }] : [],
    );
    await taking.refused(bad);
    const asked = lines.flatMap(({ place, open, line }) =>
      line.kind === 'request' ? [{ place, open, request: line.request }] : [],
    );
    await this.#ask(asked, (line, answer) => this.#follow(line, answer));
  }

  /** Submits requests. Those that are refused are failures, and hinder no other. */
  async #ask(lines: readonly AskedLine[], follow: (line: AskedLine, answer: Accepted) => Promise<void>): Promise<void> {
    if (lines.length === 0) return;
    const { client, record, stop, taking } = this.#own;
    await this.#own.sure();
    const requests = lines.map(({ request, open: { executionId } }) => ({
      ...request,
      batch: record.name,
      executionId,
    }));
    const answers = await submit(client, requests, { waiting: () => {} }, stop);
    const refused: { place: number; open: OpenLine; error: ErrorInfo }[] = [];
    for (const [i, line] of lines.entries()) {
      const answer = answers[i];
      if (!answer) throw new RunError('internal', `line ${line.open.line} got no answer`);
      if ('error' in answer) refused.push({ ...line, error: answer.error });
      else await follow(line, answer);
    }
    await taking.refused(refused);
  }

  /** In a later round a run that has failed goes on where it failed, and one that cannot is begun anew. */
  async #follow(line: AskedLine, answer: Accepted): Promise<void> {
    const { round } = this.#own.record;
    if (round === 0 || !hasNoAnswer(answer.status)) return await this.#add(line, answer);
    if (answer.status === 'failed' && (await this.#redrive(answer.runId, line.request.deadlineMs)))
      return await this.#add(line, { ...answer, status: 'queued' });
    const executionId = `${line.open.executionId}:r${round}`;
    const anew = { ...line, open: { ...line.open, executionId } };
    await this.#ask([anew], (asked, accepted) => this.#add(asked, accepted));
  }

  async #add({ place, open }: AskedLine, { runId, status }: Accepted): Promise<void> {
    const { stay, ports, outstanding, record } = this.#own;
    const { round } = record;
    const followed = { place, open: { ...open, round } };
    // From now on a successor follows this run, and redrives it no second time.
    if (round > 0 && !(await ports.store.note(stay, followed))) throw this.#own.lose();
    await outstanding.add({ ...followed, runId }, isTerminalStatus(status));
  }

  /** False for a run that cannot go on. */
  async #redrive(runId: string, deadlineMs: number | undefined): Promise<boolean> {
    try {
      await this.#own.client.redrive(deadlineMs === undefined ? { runId } : { runId, deadlineMs });
      return true;
    } catch (error) {
      if (asRunError(error).code === 'queue_unavailable') throw error;
      return false;
    }
  }
}

interface AskedLine {
  readonly place: number;
  readonly open: OpenLine;
  readonly request: RunRequestInput;
}

function hasNoAnswer(status: RunStatus): boolean {
  return status === 'failed' || status === 'cancelled' || status === 'blocked';
}
