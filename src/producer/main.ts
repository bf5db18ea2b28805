import { parseConfig, type Config } from '../shared/contract/config.ts';
import { messageOf, RunError } from '../shared/base/errors.ts';
import { createLog } from '../shared/base/log.ts';
import { producerRedactor, startProducer } from './http/start-producer.ts';

const exitUsage = 2;
const exitUnreachable = 3;
/** After this a close that hangs is not waited for any longer. */
const forceExitMs = 5_000;

async function main(): Promise<void> {
  if (Number(process.versions.node.split('.')[0]) < 24)
    stop(exitUsage, 'millrace needs Node 24: run it through npm or bin/millrace.mjs');
  const config = readConfig();
  const log = createLog('producer', config.LOG_LEVEL, producerRedactor(config));
  const starting = startProducer(config, log);

  let draining = false;
  const drain = (why: string) => {
    if (draining) process.exit(1);
    draining = true;
    log.info({ why }, 'producer is draining');
    setTimeout(() => process.exit(1), forceExitMs).unref();
    starting
      .then((producer) => producer.close())
      .then(
        () => process.exit(0),
        (error: unknown) => {
          log.error({ err: error }, 'producer did not stop cleanly');
          process.exit(1);
        },
      );
  };
  process.on('SIGTERM', () => drain('SIGTERM'));
  process.on('SIGINT', () => drain('SIGINT'));
  // Started with an IPC channel (the development stack): the producer must not outlive its parent.
  process.on('disconnect', () => drain('parent is gone'));
  process.on('unhandledRejection', (error) => log.error({ err: error }, 'unhandled rejection'));

  try {
    const { url, port } = await starting;
    log.info({ url }, 'producer is ready');
    process.send?.({ type: 'ready', url, port });
  } catch (error) {
    if (!(error instanceof RunError)) throw error;
    stop(error.code === 'queue_unavailable' ? exitUnreachable : exitUsage, error.message);
  }
}

function readConfig(): Config {
  try {
    return parseConfig(process.env);
  } catch (error) {
    return stop(exitUsage, messageOf(error));
  }
}

function stop(code: number, message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

await main();
