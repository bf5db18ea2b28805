import { repeat, systemClock } from '../../../shared/base/clock.ts';
import { asRunError } from '../../../shared/base/errors.ts';
import { countLifecycle } from '../../../shared/state/series/count-lifecycle.ts';
import type { ClientCore } from '../client-core.ts';

const everyMs = 1_000;

/**
 * Keeps the counters of all tenants, together with all other producers: each second one of them counts what came into the
 * lifecycle stream. One that dies is missed by none. Disposing waits for what is under way.
 */
export function keepSeries(core: ClientCore): AsyncDisposable {
  const count = async () => {
    const isMine = await core.reach((redis) => redis.set(core.keys.seriesTurn, '1', 'PX', everyMs - 100, 'NX'));
    if (isMine !== 'OK') return;
    const page = () =>
      core.reach((redis) => countLifecycle({ redis, keys: core.keys, cluster: core.cluster }, systemClock.now()));
    while (!core.closing.aborted && (await page()));
  };
  return repeat(everyMs, count, (error) => core.onError(asRunError(error)));
}
