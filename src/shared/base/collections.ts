type Optional<T> = { [K in keyof T]: undefined extends T[K] ? K : never }[keyof T];
type Defined<T> = { [K in keyof T as K extends Optional<T> ? never : K]: T[K] } & {
  [K in keyof T as K extends Optional<T> ? K : never]?: Exclude<T[K], undefined>;
};

/**
 * Without the fields that are undefined. For objects that leave the process as objects (arguments of a caller's functions, what the
 * clients answer): there an absent field and an undefined one differ. What becomes JSON does not need it.
 */
export function defined<const T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}

/** The pairs of a flat list, as which scripts answer hashes, and commands the members of a sorted set with their scores. */
export function pairsOf<T>(flat: readonly T[]): readonly (readonly [T, T])[] {
  return Array.from({ length: Math.floor(flat.length / 2) }, (_, i) => [flat[2 * i] as T, flat[2 * i + 1] as T]);
}

/** The value of what was settled. Throws the reason of what was rejected. */
export function settledValue<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}

/** Neighbours together: at most `most` of them, and `maxBytes` of theirs. One that is larger is alone. */
export function* inBatches<T>(
  items: readonly T[],
  bytesOf: (item: T) => number,
  { most, maxBytes }: { readonly most: number; readonly maxBytes: number },
): Generator<readonly T[], void, void> {
  let batch: T[] = [];
  let bytes = 0;
  for (const item of items) {
    const itemBytes = bytesOf(item);
    if (batch.length > 0 && (batch.length >= most || bytes + itemBytes > maxBytes)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += itemBytes;
  }
  if (batch.length > 0) yield batch;
}

/** Works through the items, at most `width` at a time, in order of their start. */
export async function inLanes<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const lane = async () => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
}
