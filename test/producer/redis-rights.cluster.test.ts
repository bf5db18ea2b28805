import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { call } from '../support/http.ts';
import { planInput } from '../support/plan.ts';
import { startTwoMasters } from '../support/two-masters.ts';
import { makeWorld } from '../support/world.ts';

const operations = readFileSync(join(import.meta.dirname, '../../docs/operations.md'), 'utf8');

/** The rule as the docs have it for a Cluster, for the prefix of a test. */
function documentedRule(prefix: string): readonly string[] {
  const line = operations.split('\n').find((text) => text.startsWith('ACL SETUSER millrace '));
  if (line === undefined) throw new Error('docs/operations.md has no rule');
  const beside = '`~{mr}:*`';
  if (!operations.includes(beside)) throw new Error('docs/operations.md has no rule for a Cluster');
  const rule = line
    .split(' ')
    .slice(3)
    .filter((word) => !word.startsWith('>'));
  return [...rule, beside.slice(1, -1)].map((word) => word.replace('mr', prefix));
}

test('the rule of the docs is enough to accept, run and follow in a Cluster', async () => {
  const nodes = await startTwoMasters([8_192, 16_383]);
  const redisUrl = `redis+cluster://runner:run-pass@127.0.0.1:${nodes[0].port}`;
  const prefix = 'acl';
  for (const { redis } of nodes) await redis.call('ACL', 'SETUSER', 'runner', '>run-pass', ...documentedRule(prefix));
  const world = await makeWorld({ redisUrl, prefix, producer: true });
  const ready = await call('GET', `${world.url}/readyz`);
  expect([ready.status, ready.body.status]).toEqual([200, 'ready']);
  const accepted = await call('POST', `${world.url}/v1/runs`, { agent: 'hands', input: planInput({ text: 'Done.' }) });
  expect(accepted.status).toBe(202);
  const { view, events } = await world.ended(accepted.body);
  expect(view.status).toBe('completed');
  expect(events.at(-1)?.type).toBe('run.completed');
  // The docs say that the rule leaves this one out.
  const refused = await Promise.all(nodes.map(async ({ redis }) => (await redis.call('ACL', 'LOG')) as string[][]));
  const objects = refused.flat().map((entry) => entry[entry.indexOf('object') + 1]);
  expect(objects.filter((object) => object !== 'config|get')).toEqual([]);
});
