import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLog } from '../../../../src/shared/base/log.ts';
import { defaultLimits } from '../../../../src/worker/tools/code-mode/protocol.ts';
import { ScriptPool } from '../../../../src/worker/tools/code-mode/pool.ts';

// A process that runs the script of its first argument, prints the id of the script's process, and waits to be killed.

const pool = new ScriptPool({ size: 1, log: silentLog, clock: systemClock });
const print = () => void process.stdout.write(`${pool.processIds()[0]}\n`);
setInterval(() => {}, 60_000);
await pool.run({
  source: process.argv[2] ?? '1',
  tenant: 'acme',
  tools: ['echo'],
  limits: defaultLimits,
  nowMs: 0,
  seed: 'key',
  signal: new AbortController().signal,
  call() {
    print();
    return Promise.resolve({ ok: true, value: null });
  },
});
print();
