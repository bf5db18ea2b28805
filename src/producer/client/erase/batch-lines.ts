import { Buffer } from 'node:buffer';
import { RunError } from '../../../shared/base/errors.ts';
import { batchId } from '../../../shared/contract/batch.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import { isCsv, type BatchRecord } from '../../../shared/contract/batch-record.ts';
import type { FilePart, FileView } from '../../../shared/contract/files.ts';
import { redisBatches } from '../../../shared/state/batch/batches.ts';
import { erasedLines, type ErasedLine, noteErasedLines } from '../../../shared/state/erasure/erased-lines.ts';
import type { PlannedRun } from '../../../shared/state/erasure/plans.ts';
import type { KeySpace } from '../../../shared/state/keys.ts';
import type { BatchLine } from '../../batch/lines/line.ts';
import type { TenantClient } from '../client-core.ts';

const pageSize = 100;
/** More than any line that a batch writes: it has an answer as a text and as a value. */
const maxWrittenBytes = 64 * 1024 * 1024;
/** Outputs of batches of a tenant that are looked at together. */
const outputsAtOnce = 10_000;

/** The batches that a run can be a line of: by their id, or by a name of the author's, which several may have. */
export async function batchesNamed(name: string, { core, tenant }: TenantClient): Promise<readonly BatchRecord[]> {
  const list = async (after: string | undefined) =>
    await core.reach((redis) => redisBatches({ redis, keys: core.keys }).list(tenant, pageSize, after));
  if (batchId.safeParse(name).success) {
    const found = await core.reach((redis) => redisBatches({ redis, keys: core.keys }).loadWithOpen(name));
    return found?.record.tenant === tenant ? [found.record] : [];
  }
  const named: BatchRecord[] = [];
  for (let after: string | undefined; ;) {
    const page = await list(after);
    const records = (page?.found ?? []).map(({ record }) => record);
    named.push(...records.filter((record) => record.name === name));
    if (!page?.hasMore) return named;
    // A page whose batches are all gone has removed them: the same place has the next ones then.
    after = records.at(-1)?.id ?? after;
  }
}

/** Is a batch of this name still working on its lines? */
export async function isBatchOpen(name: string, client: TenantClient): Promise<boolean> {
  return (await batchesNamed(name, client)).some(({ status }) => !isEndedBatch(status));
}

/** Overwrites, or only counts, the lines that these runs have in the files of their batches, which have ended. Lengths stay. */
export async function eraseLines(
  runs: readonly PlannedRun[],
  client: TenantClient,
  how: 'count' | 'erase',
): Promise<number> {
  const byBatch = Map.groupBy(
    runs.filter(({ batch }) => batch !== undefined),
    ({ batch }) => batch ?? '',
  );
  let count = 0;
  for (const [name, lines] of byBatch)
    for (const record of await batchesNamed(name, client)) count += await eraseInBatch(record, lines, client, how);
  return count;
}

async function eraseInBatch(
  record: BatchRecord,
  runs: readonly PlannedRun[],
  client: TenantClient,
  how: 'count' | 'erase',
): Promise<number> {
  const { runIdIn } = await import('../../batch/lines/output-line.ts');
  const division = isCsv(record) ? 'records' : 'lines';
  const ids = new Set(runs.map(({ runId }) => runId));
  const isMeant = (text: string) => ids.has(runIdIn(text, division) ?? '');
  let count = 0;
  for (const { id } of await outputsOf(record, client)) {
    const info = await client.core.files.store.info(client.tenant, id);
    const file = new PartedFile(id, info?.parts ?? [], client);
    count += await file.eraseWhere(division, isMeant, how);
  }
  return count + (await eraseInput(record, runs, client, how));
}

/** The files that a batch has written, those of before it was redriven too: their names begin with its id. */
async function outputsOf({ id }: BatchRecord, { core, tenant }: TenantClient): Promise<readonly FileView[]> {
  const outputs: FileView[] = [];
  for (let after: string | undefined; ;) {
    const query = { purpose: 'batch_output', limit: outputsAtOnce, after } as const;
    const { data, has_more: hasMore } = await core.files.store.list(tenant, query);
    outputs.push(...data.filter(({ filename }) => filename.startsWith(`${id}_`)));
    after = data.at(-1)?.id;
    if (!hasMore) return outputs;
  }
}

/** Lines of the input are known by the execution ids of their runs. */
async function eraseInput(
  record: BatchRecord,
  runs: readonly PlannedRun[],
  client: TenantClient,
  how: 'count' | 'erase',
): Promise<number> {
  const { core, tenant } = client;
  const { request, name } = record;
  const [{ BatchInput }, { executionIdOf }] = await Promise.all([
    import('../../batch/advance/input.ts'),
    import('../../batch/lines/execution-id.ts'),
  ]);
  const info = await core.files.store.info(tenant, request.input_file_id);
  if (!info) return 0;
  const wanted = new Set(runs.map(({ executionId = '' }) => executionId.replace(/:r\d+$/, '')));
  const file = new PartedFile(request.input_file_id, info.parts, client);
  let found: readonly ErasedLine[] = [];
  // A line that is overwritten while the file is read may hide another one of the same text.
  for (let known = await file.erased(), before = -1; known.size !== before; known = await file.erased()) {
    before = known.size;
    const input = new BatchInput(record, core.files.store, async () => known);
    found = await linesToErase(input.all(), ({ key }) => wanted.has(executionIdOf(name, key)), known);
  }
  // What is blank is no line, and there must not be fewer of them.
  if (how === 'erase') await file.overwrite(found, isCsv(record) ? '-' : erased, '-');
  return found.length;
}

/** Of a line that an erasure has overwritten before, all is known that was known then. */
async function linesToErase(
  lines: AsyncIterable<readonly [place: number, line: BatchLine]>,
  isMeant: (line: BatchLine) => boolean,
  known: ReadonlyMap<number, ErasedLine>,
): Promise<readonly ErasedLine[]> {
  const { digestOfId } = await import('../../batch/lines/read-lines.ts');
  const found = new Map<number, ErasedLine>();
  const withId = new Map<string, ErasedLine>();
  try {
    for await (const [, line] of lines) {
      const { id, key, offset, length } = line;
      const first = id === undefined ? undefined : withId.get(id);
      if (id !== undefined && first) found.set(first.offset, { ...first, idDigest: digestOfId(id) });
      if (!isMeant(line) || length === 0) continue;
      const before = known.get(offset);
      const erased = before?.key === key ? before : { offset, length, key, idDigest: '' };
      found.set(offset, erased);
      if (id !== undefined) withId.set(id, erased);
    }
  } catch (error) {
    // The rest of a file that cannot be read as lines was never asked of any agent.
    if (!(error instanceof RunError && error.code === 'validation')) throw error;
  }
  return [...found.values()];
}

/** The bytes of a file of which parts can be replaced by others of the same length. */
class PartedFile {
  readonly #id: string;
  readonly #parts: readonly FilePart[];
  readonly #client: TenantClient;

  constructor(id: string, parts: readonly FilePart[], client: TenantClient) {
    this.#id = id;
    this.#parts = parts;
    this.#client = client;
  }

  async eraseWhere(
    division: 'lines' | 'records',
    isMeant: (text: string) => boolean,
    how: 'count' | 'erase',
  ): Promise<number> {
    const { rawLines } = await import('../../batch/lines/raw-lines.ts');
    const found: ErasedLine[] = [];
    for await (const { offset, length, content } of rawLines(this.#bytes(), division, maxWrittenBytes))
      if (content && isMeant(content.toString('utf8'))) found.push({ offset, length, key: '', idDigest: '' });
    if (how === 'erase') await this.overwrite(found, division === 'records' ? '' : erased, '');
    return found.length;
  }

  /** The lines that erasures have overwritten here, by their offset. */
  async erased(): Promise<ReadonlyMap<number, ErasedLine>> {
    return await this.#reach((space) => erasedLines(space, this.#id));
  }

  /** Puts a note, or a shorter one where that is too long, and spaces in the place of each of these lines. */
  async overwrite(lines: readonly ErasedLine[], note: string, shortNote: string): Promise<void> {
    if (lines.length === 0) return;
    await this.#reach((space) => noteErasedLines(space, this.#id, lines));
    const filler = (length: number) => Buffer.from((length < note.length ? shortNote : note).padEnd(length, ' '));
    let at = 0;
    for (const { name, bytes: size } of this.#parts) {
      const isTouched = lines.some(({ offset, length }) => offset < at + size && offset + length > at);
      if (isTouched) await this.#overwritePart({ name, at, size }, filler);
      at += size;
    }
  }

  /**
   * A part is read, changed and written as a whole. Another erasure that does so at the same time would bring lines back, so each
   * overwrites the lines of all, and does it again when one has named others meanwhile.
   */
  async #overwritePart({ name, at, size }: PartPlace, filler: (length: number) => Buffer): Promise<void> {
    const blobs = await this.#client.core.files.blobs();
    for (let lines = await this.erased(), before = -1; lines.size !== before; lines = await this.erased()) {
      before = lines.size;
      const bytes = await blobs.read(this.#id, name, 0, size);
      if (!bytes) return;
      const changed = Buffer.from(bytes);
      for (const { offset, length } of lines.values()) {
        const [first, last] = [Math.max(0, offset - at), Math.min(size, offset + length - at)];
        if (first < last) filler(length).copy(changed, first, at + first - offset, at + last - offset);
      }
      await blobs.put(this.#id, name, changed, Date.now());
    }
  }

  #reach<T>(work: (space: KeySpace) => Promise<T>): Promise<T> {
    const { core } = this.#client;
    return core.reach((redis) => work({ redis, keys: core.keys }));
  }

  async *#bytes(): AsyncGenerator<Uint8Array> {
    const blobs = await this.#client.core.files.blobs();
    for (const { name, bytes: size } of this.#parts) {
      const bytes = await blobs.read(this.#id, name, 0, size);
      yield bytes ?? new Uint8Array(size);
    }
  }
}

interface PartPlace {
  readonly name: string;
  /** Of its first byte in the file. */
  readonly at: number;
  readonly size: number;
}

const erased = '{"erased":true}';
