import { fileURLToPath } from 'node:url';
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
process.stdout.on('error', endWithout);

/** What was to be printed cannot be, or not all of it. */
function endWithout(error: NodeJS.ErrnoException): never {
  // `millrace tail | head -3`: a reader that has seen enough is no failure.
  if (error.code === 'EPIPE') process.exit(exitCodes.ok);
  process.stderr.write(`The output is not whole: ${error.message}\n`);
  process.exit(exitCodes.failed);
}

const cli: Cli = {
  env: process.env,
  cwd: process.cwd(),
  root: fileURLToPath(new URL('../../..', import.meta.url)),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  interrupted: interrupt.signal,
};
const code = await runCli(process.argv.slice(2), cli);
// Data may still be on its way into a pipe; connections that linger must not keep the process alive.
process.stdout.write('', (error) => {
  // The error of an earlier write comes here before it is emitted.
  const failure = process.stdout.errored ?? error;
  return failure ? endWithout(failure) : process.exit(code);
});
