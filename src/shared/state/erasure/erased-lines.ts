import { maxFileTtlS } from '../../contract/files.ts';
import type { KeySpace } from '../keys.ts';

/** A line of a file that was overwritten, or is about to be. */
export interface ErasedLine {
  readonly offset: number;
  readonly length: number;
  /** Of a line of input: what the execution id of its run was made of. Empty: it is a line of output. */
  readonly key: string;
  /** Digest of the id of a line of input, where a later line of the file has the same id. Empty: none has. */
  readonly idDigest: string;
}

/** Names lines of a file before they are overwritten: nothing in the file says afterwards which ones they were. */
export async function noteErasedLines(
  { redis, keys }: KeySpace,
  id: string,
  lines: readonly ErasedLine[],
): Promise<void> {
  const key = keys.erasedLines(id);
  const fields = lines.flatMap((line) => [String(line.offset), `${line.length} ${line.key} ${line.idDigest}`]);
  await redis
    .multi()
    .hset(key, ...fields)
    .expire(key, maxFileTtlS)
    .exec();
}

/** The lines of a file that were named, by their offset. */
export async function erasedLines({ redis, keys }: KeySpace, id: string): Promise<ReadonlyMap<number, ErasedLine>> {
  const found = await redis.hgetall(keys.erasedLines(id));
  return new Map(
    Object.entries(found).map(([at, text]) => {
      const [length, key = '', idDigest = ''] = text.split(' ');
      return [Number(at), { offset: Number(at), length: Number(length), key, idDigest }];
    }),
  );
}
