import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { Cli } from '../../../src/producer/cli/cli.ts';
import { runCli } from '../../../src/producer/cli/program.ts';
import { root } from './support/cli-process.ts';

/** What a command writes, on a terminal with 256 colours or elsewhere. */
async function written(args: readonly string[], isTTY: boolean, env: Record<string, string> = {}): Promise<string> {
  let text = '';
  const stream = () => {
    const made = Object.assign(new PassThrough(), { isTTY, columns: 80, getColorDepth: () => 8 });
    made.on('data', (chunk: Buffer) => void (text += chunk.toString()));
    return made;
  };
  const interrupted = new AbortController().signal;
  const streams = { stdin: new PassThrough(), stdout: stream(), stderr: stream() };
  const cli = { ...streams, env: { REDIS_URL: 'redis://127.0.0.1:1', ...env }, cwd: root, root, interrupted };
  await runCli(args, cli as unknown as Cli);
  return text;
}

const colour = '\u001b[';

test('a terminal gets colours, and a pipe none', async () => {
  expect(await written(['doctor'], true)).toContain(colour);
  expect(await written(['doctor'], false)).not.toContain(colour);
});

test.each([
  ['--no-color before the command', ['--no-color', 'doctor'], {}],
  ['--no-color after it', ['doctor', '--no-color'], {}],
  ['NO_COLOR', ['doctor'], { NO_COLOR: '1' }],
])('%s turns colours off', async (_, args, env) => {
  const text = await written(args, true, env);
  expect(text).toContain('FAIL');
  expect(text).not.toContain(colour);
});
