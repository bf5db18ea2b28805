import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { flowMode } from '../../src/shared/contract/flow.ts';
import { createLog } from '../../src/shared/base/log.ts';
import { Redactor } from '../../src/shared/base/redact.ts';
import { startWorker } from '../../src/worker/index.ts';
import { agentsOf, partsOf, type CastOptions, type Variant } from './cast.ts';
import { obedientModel } from './obedient-model.ts';
import { readCorpus } from './read-corpus.ts';

// A worker process that plays scenarios. What its tools do is in a file outside of it, which survives its death.

const setting = (name: string) => process.env[name] ?? '';
const folder = setting('GUARDS_STAGE');
const only = new Set(setting('GUARDS_ONLY').split(','));

const options: CastOptions = {
  mode: flowMode.parse(setting('GUARDS_MODE')),
  variant: setting('GUARDS_VARIANT') as Variant,
  serversUrl: setting('GUARDS_SERVERS'),
  record: (played) => appendFileSync(join(folder, 'calls'), `${JSON.stringify(played)}\n`),
  passed: async (runId, signal) => {
    appendFileSync(join(folder, 'arrived'), `${runId}\n`);
    while (!existsSync(join(folder, 'gate'))) await pause(20, undefined, { signal });
  },
};

const scenarios = readCorpus(setting('GUARDS_CORPUS')).filter(({ id }) => only.has(id));
const worker = await startWorker({
  redis: setting('REDIS_URL'),
  prefix: setting('MILLRACE_PREFIX'),
  agents: scenarios.flatMap((scenario) => agentsOf(scenario, options)),
  provider: obedientModel(
    scenarios.flatMap((scenario) => partsOf(scenario, options)),
    options.passed,
  ),
  concurrency: Number(setting('GUARDS_CONCURRENCY')),
  log: createLog('worker', 'warn', new Redactor()),
  env: {
    LOCK_DURATION_MS: setting('LOCK_DURATION_MS'),
    STALLED_INTERVAL_MS: setting('STALLED_INTERVAL_MS'),
    CODE_MODE_PROCESSES: setting('CODE_MODE_PROCESSES'),
    EGRESS_ALLOWED_HOSTS: '127.0.0.1',
  },
});
process.on('message', () => void worker.stop(5_000).then(() => process.exit(0)));
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
