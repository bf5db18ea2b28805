import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject, onTestFinished, expect, test } from 'vitest';
import { configOf } from '../../../../src/producer/cli/options/open-client.ts';
import type { Cli } from '../../../../src/producer/cli/cli.ts';
import { removeDevState, writeDevState } from '../../../../src/producer/cli/stack/dev-notes.ts';
import { clientWorld, request } from './client.ts';
import { millrace } from '../support/cli-process.ts';

const dev = { redisUrl: 'redis://127.0.0.1:7001', prefix: 'devbox', url: 'http://127.0.0.1:8080', pid: process.pid };

/** No process has this id: it is above what Linux and macOS give out. */
const unusedPid = 2 ** 31 - 2;

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'millrace-cli-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function targetOf(cwd: string, env: Record<string, string> = {}) {
  const { REDIS_URL, MILLRACE_PREFIX } = configOf({ cwd, env } as Pick<Cli, 'cwd' | 'env'> as Cli);
  return [REDIS_URL, MILLRACE_PREFIX];
}

test('a development stack that runs here or above is the one that is meant', () => {
  const cwd = folder();
  writeDevState(cwd, dev);
  mkdirSync(join(cwd, 'deep/down'), { recursive: true });
  expect(targetOf(cwd)).toEqual(['redis://127.0.0.1:7001', 'devbox']);
  expect(targetOf(join(cwd, 'deep/down'))).toEqual(['redis://127.0.0.1:7001', 'devbox']);
  removeDevState(cwd);
  expect(targetOf(cwd)).toEqual(['redis://127.0.0.1:6379', 'mr']);
});

test('a stack whose process is gone is not found', () => {
  const cwd = folder();
  writeDevState(cwd, { ...dev, pid: unusedPid });
  expect(targetOf(cwd)).toEqual(['redis://127.0.0.1:6379', 'mr']);
});

test('a half-written note about a stack is not believed', () => {
  const cwd = folder();
  writeDevState(cwd, dev);
  writeFileSync(join(cwd, '.millrace/dev.json'), '{"redisUrl":"redis://127.0');
  expect(targetOf(cwd)).toEqual(['redis://127.0.0.1:6379', 'mr']);
});

test('REDIS_URL and a prefix of the environment win over a running stack', () => {
  const cwd = folder();
  writeDevState(cwd, dev);
  expect(targetOf(cwd, { REDIS_URL: 'redis://elsewhere:6379' })).toEqual(['redis://elsewhere:6379', 'mr']);
  expect(targetOf(cwd, { MILLRACE_PREFIX: 'mine' })).toEqual(['redis://127.0.0.1:7001', 'mine']);
});

test('in production a running stack is never meant', () => {
  const cwd = folder();
  writeDevState(cwd, dev);
  expect(() => targetOf(cwd, { NODE_ENV: 'production' })).toThrow('REDIS_URL: required');
});

test('a command without REDIS_URL reaches the stack of its folder', async () => {
  const { mill, prefix } = await clientWorld();
  const run = await mill.enqueue(request);
  const cwd = folder();
  writeDevState(cwd, { ...dev, redisUrl: inject('redisUrl'), prefix });
  const { stdout } = await millrace(['get', run.runId, '--json'], { cwd });
  expect(JSON.parse(stdout)).toMatchObject({ runId: run.runId });
});
