import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFailed, onTestFinished, test } from 'vitest';
import { Fleet } from '../support/fleet.ts';
import { until } from '../support/redis.ts';
import { chat, stall, startRawProvider, type RawRequest } from '../support/raw-provider.ts';

const agent = `model: m
outputRepairAttempts: 1
outputSchema: { type: object, properties: { n: { type: integer } }, required: [n] }
`;

function agentsFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'strict.yaml'), agent);
  return folder;
}

const isRepair = ({ body }: RawRequest) => /refused/.test(String(body.messages.at(-1).content));

test('a worker killed while a wrong answer is repaired: the wrong answer is not paid again, its repair is asked for again', async () => {
  const provider = await startRawProvider();
  onTestFinished(() => provider[Symbol.asyncDispose]());
  let dying = true;
  provider.answer((response, request) => {
    if (isRepair(request) && dying) return stall()(response, request);
    return chat(() => ({ text: isRepair(request) ? '{"n":1}' : '{"n":"one"}' }))(response, request);
  });
  const fleet = new Fleet({ env: { OPENAI_BASE_URL: provider.url, MILLRACE_AGENTS: agentsFolder() } });
  onTestFinished(() => fleet.dispose());
  onTestFailed(() => void process.stderr.write(`${fleet.report}\n`));
  const workers = await Promise.all([fleet.startWorker(), fleet.startWorker()]);
  const { runId } = await fleet.mill.enqueue({ agent: 'strict', input: 'Which number?' });
  await until('the repair is asked for', () => provider.requests.some(isRepair));
  const { worker = '', steps } = await fleet.mill.get(runId);
  expect(steps).toBe(1);
  dying = false;
  await workers.find(({ pid }) => worker.includes(`-${pid}-`))?.kill();
  const view = await until(
    'the run has ended',
    async () => {
      const now = await fleet.mill.get(runId);
      return now.endedAt ? now : undefined;
    },
    30_000,
  );
  expect(view).toMatchObject({ status: 'completed', recoveries: 1, steps: 2, result: { structured: { n: 1 } } });
  expect(provider.requests.filter((request) => !isRepair(request))).toHaveLength(1);
  expect(provider.requests.filter(isRepair)).toHaveLength(2);
});
