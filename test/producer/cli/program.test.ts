import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../support/scratch-redis.ts';
import { millrace, millraceProcess } from './support/cli-process.ts';

test('help says what the exit codes mean', async () => {
  const { code, stdout } = await millrace(['--help']);
  expect(code).toBe(0);
  expect(stdout).toContain('Exit codes: 0 ok, 1 run failed, 2 usage or settings, 3 unreachable, 130 Ctrl-C.');
});

test.each([
  { args: '', says: 'Usage: millrace' },
  { args: 'nonsense', says: "unknown command 'nonsense'" },
  { args: 'runs --nope', says: "unknown option '--nope'" },
  { args: 'get', says: "missing required argument 'run'" },
  { args: 'batch', says: 'a batch needs a file of lines, or --attach' },
  { args: 'runs --status lost', says: "'lost' is invalid" },
  { args: 'runs --limit 0', says: 'Not a whole number' },
  { args: 'run a b --max-cost cheap', says: 'Not a number above 0.' },
  { args: 'batch x.jsonl -o y --deadline soon', says: 'Not a number above 0.' },
  { args: 'run a b --metadata key', says: 'Not of the form key=value.' },
  { args: 'fan-out a b --first --judge c', says: 'give one of --first and --judge' },
  { args: 'task inbox --input nonsense', says: '--input is not JSON' },
  { args: 'evaluate a --input b', says: 'with --judge, and --rubric if you like, or with --schema' },
  { args: 'chat', says: "missing required argument 'agent'" },
  { args: 'chat a --busy wait', says: "'wait' is invalid" },
  { args: 'tail --after 3', says: '--after needs a run' },
  { args: 'redrive', says: 'name the runs, or say which failed ones' },
  { args: 'redrive A --all-failed', says: 'name the runs, or say which failed ones' },
])('`millrace $args` is a usage error', async ({ args, says }) => {
  const { code, stdout, stderr } = await millrace(args.split(' ').filter(Boolean));
  expect(stderr).toContain(says);
  expect(stdout).toBe('');
  expect(code).toBe(2);
});

test('the version is that of the package', async () => {
  const { code, stdout } = await millrace(['--version']);
  expect(stdout).toMatch(/^\d+\.\d+\.\d+/);
  expect(code).toBe(0);
});

test('a wrong configuration names every problem at once', async () => {
  const { code, stderr } = await millrace(['runs'], { env: { PORT: 'abc', WORKER_CONCURRENCY: '0' } });
  expect(stderr).toContain('PORT:');
  expect(stderr).toContain('WORKER_CONCURRENCY:');
  expect(code).toBe(2);
});

test('in production nothing but REDIS_URL says where Redis is', async () => {
  const { code, stderr } = await millrace(['runs'], { env: { NODE_ENV: 'production' } });
  expect(stderr).toContain('REDIS_URL: required');
  expect(code).toBe(2);
});

const runId = '01K9Z5N3T8R6V2X4B7C1D0E9FG';

const needRedis = [
  ['get', runId],
  ['runs'],
  ['agents'],
  ['cancel', runId],
  ['tail'],
  ['tail', runId],
  ['run', 'support', 'hello'],
  ['chat', 'support'],
  ['redrive', runId],
  ['doctor'],
  ['batch', 'examples/orders.jsonl'],
];

test('every command that needs Redis says so and exits 3 when it is not there', async () => {
  const env = { REDIS_URL: `redis://127.0.0.1:${await freePort()}` };
  const outcomes = await Promise.all(needRedis.map((args) => millrace(args, { env })));
  expect(outcomes.map(({ code }, index) => [needRedis[index], code])).toEqual(needRedis.map((args) => [args, 3]));
  for (const { stdout, stderr } of outcomes) expect(`${stdout}${stderr}`).toMatch(/queue_unavailable|does not answer/);
});

test('what cannot be a run id is a usage error that names it', async () => {
  const { code, stderr } = await millrace(['get', 'nonsense'], { env: { REDIS_URL: 'redis://127.0.0.1:1' } });
  expect(stderr).toContain('there is no run nonsense');
  expect(code).toBe(2);
});

test('an old Node without the pinned one beside it gets an error that says what to do', async () => {
  const { code, stderr } = await millraceProcess(['--help'], {
    nodeArgs: ['--import', oldNode],
    env: { MILLRACE_PINNED_NODE: '1' },
  });
  expect(stderr).toContain('millrace needs Node 24 or later and this is 20.9.0.');
  expect(code).toBe(2);
});

test('an old Node hands over to the pinned one, with arguments, output and exit code', async () => {
  const { code, stdout, stderr } = await millraceProcess(['runs', '--limit', 'x'], { nodeArgs: ['--import', oldNode] });
  expect(stderr).toContain('Not a whole number');
  expect(stdout).toBe('');
  expect(code).toBe(2);
});

/** Makes a process believe that it is older than it is. */
const oldNode = `data:text/javascript,${encodeURIComponent(
  "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.9.0' } })",
)}`;

test('an error that quotes a file moves no cursor', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-error-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  writeFileSync(join(cwd, 'args.json'), '\u001b[2J');
  const { stderr } = await millrace(['approve', 'ABCDE', 'call_1', '--args', '@args.json'], { cwd });
  expect(stderr).toContain('is not JSON');
  expect(stderr).not.toContain('\u001b');
});
