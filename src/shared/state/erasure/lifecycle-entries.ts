import { isRecord, jsonOr } from '../../base/json.ts';
import type { Reach, Keys } from '../keys.ts';

const pageSize = 1_000;

/** The entries that runs have in the stream of lifecycle events, by the time in which they can be. */
export async function* lifecycleEntries(
  { reach, keys }: { readonly reach: Reach; readonly keys: Keys },
  runIds: ReadonlySet<string>,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): AsyncGenerator<readonly string[]> {
  let from = String(Math.max(0, Math.floor(fromMs)));
  for (;;) {
    const start = from;
    const page = await reach((redis) => redis.xrange(keys.lifecycle, start, Math.ceil(toMs), 'COUNT', pageSize));
    const found = page.filter(([, [, json = '']]) => isAbout(json, runIds)).map(([id]) => id);
    if (found.length > 0) yield found;
    if (page.length < pageSize) return;
    from = `(${page.at(-1)?.[0] ?? ''}`;
  }
}

function isAbout(json: string, runIds: ReadonlySet<string>): boolean {
  const event = jsonOr(json);
  return isRecord(event) && typeof event['runId'] === 'string' && runIds.has(event['runId']);
}
