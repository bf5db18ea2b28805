import { parseConfig } from '../shared/contract/config.ts';
import { RunError } from '../shared/base/errors.ts';
import { createLog } from '../shared/base/log.ts';
import { checkNode, drainOnSignals, exitUnreachable, exitUsage, orStop, stop } from '../shared/base/program.ts';
import { producerRedactor, startProducer } from './http/start-producer.ts';

/** After this a close that hangs is not waited for any longer. */
const forceExitMs = 5_000;

async function main(): Promise<void> {
  checkNode();
  const config = orStop(() => parseConfig(process.env));
  const log = createLog('producer', config.LOG_LEVEL, producerRedactor(config));
  const starting = startProducer(config, log);
  drainOnSignals({ name: 'producer', log, forceExitMs, close: async () => await (await starting).close() });
  try {
    const { url, port } = await starting;
    log.info({ url }, 'producer is ready');
    process.send?.({ type: 'ready', url, port });
  } catch (error) {
    if (!(error instanceof RunError)) throw error;
    stop(error.code === 'queue_unavailable' ? exitUnreachable : exitUsage, error.message);
  }
}

await main();
