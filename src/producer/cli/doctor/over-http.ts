import { asRunError } from '../../../shared/base/errors.ts';
import type { RemoteSettings } from '../../../shared/contract/config.ts';
import type { Diagnosis } from '../../client/diagnose/diagnose.ts';
import type { Millrace } from '../../client/millrace.ts';
import { addressOf } from '../../client/remote/options.ts';
import { remoteClient } from '../options/open-client.ts';
import { fail, ok, warn, type Check } from '../../client/diagnose/check.ts';
import { checkDiagnosis, queues } from '../../client/diagnose/checks.ts';
import { checkProviders } from '../../client/diagnose/provider-checks.ts';

/** What was found. Over HTTP `diagnosis` is there for keys with the scope `admin` only. */
export interface Findings {
  readonly isReached: boolean;
  readonly checks: readonly Check[];
  readonly diagnosis: Diagnosis | undefined;
}

/** Examines the producer that `MILLRACE_URL` names. Throws `unauthorized`, and what is wrong with the settings. */
export async function examineRemote(remote: RemoteSettings): Promise<Findings> {
  const { base } = addressOf(remote);
  await using mill = remoteClient(remote);
  try {
    const { tenant, rights } = await mill.whoami();
    const reached = ok(
      'producer',
      `${base} answers; tenant ${tenant}${rights === 'operator' ? ', with all rights' : ''}`,
    );
    const diagnosis = await ifAllowed(mill.diagnose());
    if (diagnosis) return { isReached: true, checks: [reached, ...checkDiagnosis(diagnosis)], diagnosis };
    return { isReached: true, checks: [reached, ...(await checkFleet(mill))], diagnosis: undefined };
  } catch (thrown) {
    const error = asRunError(thrown);
    if (error.code !== 'queue_unavailable') throw thrown;
    const advice = 'start a producer there (millrace producer), or set MILLRACE_URL to the right one';
    return { isReached: false, checks: [fail('producer', error.message, advice)], diagnosis: undefined };
  }
}

async function ifAllowed<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (asRunError(error).code === 'forbidden') return undefined;
    throw error;
  }
}

/** What every key may see: queues, and the model providers as the fleet reports them. */
async function checkFleet(mill: Millrace): Promise<readonly Check[]> {
  const [depths, providers] = await Promise.all([mill.queueDepths(), mill.providers()]);
  const worker = {
    name: 'fleet',
    heartbeatAgeMs: 0,
    queues: [],
    concurrency: 0,
    active: 0,
    version: '',
    providers,
  };
  const isServed = Object.values(depths).some(({ workers }) => workers > 0);
  return [
    warn('key', 'without the scope admin only queues and providers are shown', 'give the key this scope to see all'),
    ...queues({ queues: depths, oldestQueuedMs: {}, workers: isServed ? [worker] : [] }),
    ...checkProviders({ workers: isServed ? [worker] : [] }, Date.now()),
  ];
}
