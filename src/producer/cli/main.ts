import { fileURLToPath } from 'node:url';
import { endAfterOutput, endWithoutOutput } from '../../shared/base/program.ts';
import { exitCodes, type Cli } from './cli.ts';
import { runCli } from './program.ts';

/** One Ctrl-C under npm arrives twice: from the terminal, and passed on by npm. */
const sameInterruptMs = 500;
const parentCheckMs = 500;

const interrupt = new AbortController();
let interruptedAt = 0;
const onSignal = (signal: NodeJS.Signals) => {
  if (interrupt.signal.aborted && performance.now() - interruptedAt > sameInterruptMs)
    process.exit(exitCodes.interrupted);
  if (interrupt.signal.aborted) return;
  interruptedAt = performance.now();
  interrupt.abort(signal);
};
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);

// npm passes a SIGTERM to the shell between us, which ends without a signal to us.
if (process.env['npm_lifecycle_event']) {
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    onSignal('SIGTERM');
  }, parentCheckMs).unref();
}
process.stdout.on('error', (error) => endWithoutOutput(error));

const cli: Cli = {
  env: process.env,
  cwd: process.cwd(),
  root: fileURLToPath(new URL('../../..', import.meta.url)),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  interrupted: interrupt.signal,
};
endAfterOutput(await runCli(process.argv.slice(2), cli));
