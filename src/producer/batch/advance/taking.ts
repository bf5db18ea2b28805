import { type ErrorInfo, RunError } from '../../../shared/base/errors.ts';
import type { BatchRecord, OpenLine, SampledLine } from '../../../shared/contract/batch-record.ts';
import { maxPartBytes, type FilePart } from '../../../shared/contract/files.ts';
import type { RunOutcomeView } from '../../../shared/contract/run.ts';
import type { TakenLine } from '../../../shared/state/batch/batches.ts';
import type { BatchOutputs } from '../../../shared/state/keys.ts';
import { isAnswered, type LineOutcome } from '../lines/line.ts';
import { needsOriginal, outputLine } from '../lines/output-line.ts';
import type { LineEnd } from '../../client/batches/batches.ts';
import { isInputGone } from './input.ts';
import { isEnding, type OwnBatch, type RefusedLine } from './own-batch.ts';

/** Lines of output become a part of a file when there is so much of them. */
const spoolBytes = 256 * 1024;

/** The file that such lines are written to: those of ours without an answer are in the output, too. */
export function fileIdOf({ request, outputId, errorId }: BatchRecord, of: BatchOutputs): string {
  return of === 'output' || request.endpoint === '/v1/runs' ? outputId : errorId;
}

/** Takes outcomes of lines, and has their lines of output become parts of files. */
export class Taking {
  readonly #own: Omit<OwnBatch, 'taking'>;
  readonly #spooled: Record<BatchOutputs, number>;
  readonly #gathered: (Outcome & { readonly taken: TakenLine })[] = [];
  #calling: Promise<void> = Promise.resolve();
  readonly #writing: Record<BatchOutputs, Promise<void>> = { output: Promise.resolve(), errors: Promise.resolve() };

  constructor(own: Omit<OwnBatch, 'taking'>) {
    this.#own = own;
    this.#spooled = { output: own.record.outputBytes, errors: own.record.errorBytes };
  }

  async ended(place: number, open: OpenLine, outcome: RunOutcomeView): Promise<void> {
    const { executionId } = open;
    const stopped = isEnding(this.#own.record) && outcome.status === 'cancelled';
    await this.#take([
      {
        place,
        open,
        outcome: stopped
          ? {
              kind: 'refused',
              executionId,
              runId: outcome.runId,
              error: endError(this.#own.record),
              costMicrocents: outcome.costMicrocents,
            }
          : { kind: 'ended', executionId, outcome },
        run: outcome,
      },
    ]);
  }

  async refused(lines: readonly RefusedLine[]): Promise<void> {
    if (lines.length === 0) return;
    const outcomes = lines.map(({ place, open, error }) => {
      const { executionId } = open;
      const outcome: LineOutcome = { kind: 'refused', executionId, runId: undefined, error, costMicrocents: 0 };
      return { place, open, outcome, run: undefined };
    });
    await this.#take(outcomes);
  }

  async flush(): Promise<void> {
    await this.#write('output', 1);
    await this.#write('errors', 1);
  }

  async #take(lines: readonly Outcome[]): Promise<void> {
    const taken = await Promise.all(lines.map((line) => this.#takenLine(line)));
    // While one call is under way, the next ones gather.
    this.#gathered.push(...lines.map((line, i) => ({ ...line, taken: taken[i] as TakenLine })));
    const mine = this.#calling.then(() => this.#takeGathered());
    this.#calling = mine.catch(() => {});
    await mine;
    await Promise.all([this.#write('output', spoolBytes), this.#write('errors', spoolBytes)]);
  }

  async #takeGathered(): Promise<void> {
    const { stay, ports } = this.#own;
    const lines = this.#gathered.splice(0);
    if (lines.length === 0) return;
    const all = lines.map(({ taken }) => taken);
    const count = await ports.store.take(stay, all, ports.clock.now());
    if (count === undefined) throw this.#own.lose();
    for (const { text, failed } of all) this.#spooled[failed ? 'errors' : 'output'] += Buffer.byteLength(text);
    if (count === lines.length) for (const { outcome } of lines) ports.onLine(endOf(outcome));
  }

  async #takenLine({ place, open, outcome: said, run }: Outcome): Promise<TakenLine> {
    const { input, record } = this.#own;
    const source = await input.sourceOrDraft();
    const { outcome, original } = needsOriginal(source)
      ? await this.#withOriginal(open, said)
      : { outcome: said, original: '' };
    const { line, id, offset, length } = open;
    const text = outputLine({ line, id, offset, length }, outcome, source, original);
    const { input: plain = 0, cached = 0, cacheWrite = 0, output: outputTokens = 0 } = run?.usage ?? {};
    const isSample = record.status === 'quoting' || record.before === 'quoting';
    const inputTokens = plain + cached + cacheWrite;
    const sampled = isSample && run ? sampledOf(run, length, inputTokens + outputTokens) : undefined;
    return {
      place,
      failed: !isAnswered(outcome),
      text,
      runId: run?.runId,
      costMicrocents: run?.costMicrocents ?? 0,
      inputTokens,
      outputTokens,
      sampled,
    };
  }

  /** What the line says. Where its file is gone, its answer cannot be written: the run that has it is named. */
  async #withOriginal(open: OpenLine, outcome: LineOutcome): Promise<{ outcome: LineOutcome; original: string }> {
    try {
      return { outcome, original: await this.#own.input.textOf(open) };
    } catch (error) {
      if (!isInputGone(error)) throw error;
      await this.#own.inputGone(error);
      if (outcome.kind === 'refused') return { outcome, original: '' };
      const { executionId } = outcome;
      const { runId, costMicrocents } = outcome.outcome;
      const message = `the line was not written, for its file is gone; the run ${runId} has what became of it`;
      const { code, retryable } = error;
      const refused: LineOutcome = {
        kind: 'refused',
        executionId,
        runId,
        error: { code, message, retryable },
        costMicrocents,
      };
      return { outcome: refused, original: '' };
    }
  }

  /** Writes parts while there are so many bytes, one after the other. */
  async #write(of: BatchOutputs, least: number): Promise<void> {
    if (this.#spooled[of] < least) return;
    const writing = this.#writing[of].then(async () => {
      while (this.#spooled[of] >= least && (await this.#writePart(of)));
    });
    this.#writing[of] = writing.catch(() => {});
    await writing;
  }

  /** False: there are no lines. */
  async #writePart(of: BatchOutputs): Promise<boolean> {
    const { stay, ports, record } = this.#own;
    const lines = await ports.store.spooled(stay.id, of, spoolBytes);
    if (lines.length === 0) {
      this.#spooled[of] = 0;
      return false;
    }
    const bytes = Buffer.from(lines.join(''));
    const parts: FilePart[] = [];
    for (let at = 0; at < bytes.length; at += maxPartBytes)
      parts.push(await ports.files.writePart(fileIdOf(record, of), bytes.subarray(at, at + maxPartBytes)));
    const recorded = await ports.store.addParts(stay, of, { round: record.round, lines, bytes: bytes.length, parts });
    // Another stay has the batch, or failed lines were redriven in between and these are no more.
    if (!recorded) await this.#own.look();
    this.#spooled[of] = recorded
      ? Math.max(0, this.#spooled[of] - bytes.length)
      : this.#own.record[of === 'output' ? 'outputBytes' : 'errorBytes'];
    return true;
  }
}

interface Outcome {
  readonly place: number;
  readonly open: OpenLine;
  readonly outcome: LineOutcome;
  readonly run: RunOutcomeView | undefined;
}

function sampledOf(
  { costMicrocents, usage, durationMs = 0 }: RunOutcomeView,
  bytes: number,
  tokens: number,
): SampledLine {
  const models = Object.values(usage?.byModel ?? {});
  const requests = models.reduce((sum, { attemptCount }) => sum + attemptCount, 0);
  return { costMicrocents, requests, tokens, bytes, workedMs: durationMs };
}

function endOf(outcome: LineOutcome): LineEnd {
  if (isAnswered(outcome)) return 'answered';
  return outcome.kind === 'ended' ? 'failed' : 'refused';
}

/** What is said of lines that have no answer when their batch ends. */
export function endError({ id, ending }: Pick<BatchRecord, 'id' | 'ending'>): ErrorInfo {
  const { code, message, retryable } =
    ending === 'expired'
      ? new RunError('batch_expired', `batch ${id} expired before the line had its answer`)
      : new RunError(
          'cancelled',
          `batch ${id} ${ending === 'failed' ? 'failed' : 'was cancelled'} before the line had its answer`,
        );
  return { code, message, retryable };
}
