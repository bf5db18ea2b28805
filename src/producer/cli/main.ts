import { fileURLToPath } from 'node:url';
import { exitCodes, type Cli } from './cli.ts';
import { runProgram } from './program.ts';

/** One Ctrl-C under npm arrives twice: from the terminal, and passed on by npm. */
const sameInterruptMs = 500;

const interrupt = new AbortController();
let interruptedAt = 0;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (interrupt.signal.aborted && performance.now() - interruptedAt > sameInterruptMs) process.exit(exitCodes.interrupted);
    if (interrupt.signal.aborted) return;
    interruptedAt = performance.now();
    interrupt.abort(signal);
  });
}
// `millrace tail | head -3`: a reader that has seen enough is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed);
});

const cli: Cli = {
  env: process.env,
  cwd: process.cwd(),
  root: fileURLToPath(new URL('../../..', import.meta.url)),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  interrupted: interrupt.signal,
};
const code = await runProgram(process.argv.slice(2), cli);
// Data may still be on its way into a pipe; connections that linger must not hold the process.
process.stdout.write('', () => process.exit(code));
