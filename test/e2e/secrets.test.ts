import { expect, test } from 'vitest';
import { connect } from '../../src/shared/state/connect.ts';
import { newNonce, sha256 } from '../../src/shared/base/ids.ts';
import { call } from '../support/http.ts';
import { OwnRedis } from '../support/own-redis.ts';
import { planInput } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

// No pattern of any provider: only the exact value can give it away. With signs that every encoding changes.
const providerKey = 'Canary+of/the=mine&one"quote';
const apiKey = 'canary-api-key-of-a-caller';

/** All forms in which the secret would still be readable. */
function formsOf(secret: string): string[] {
  const base64 = Buffer.from(secret).toString('base64');
  return [
    secret,
    encodeURIComponent(secret),
    base64,
    base64.replace(/=+$/, ''),
    Buffer.from(secret).toString('base64url'),
    JSON.stringify(secret).slice(1, -1),
  ];
}

test('the keys of the process are found in no event, record, job, log line or file of Redis', async () => {
  const redis = await OwnRedis.start();
  const world = await makeWorld({
    redisUrl: redis.url,
    producer: true,
    env: { OPENAI_API_KEY: providerKey, MILLRACE_API_KEYS: `${sha256(apiKey)}:default`, LOG_LEVEL: 'trace' },
  });
  const headers = { authorization: `Bearer ${apiKey}` };
  const plans = [
    [
      { calls: (['result', 'error', 'url'] as const).map((how) => ({ name: 'leak', args: { how } })) },
      { text: 'after' },
    ],
    [{ text: 'refused', faults: [{ kind: 'status', status: 401 } as const] }],
    [{ text: 'tried again', faults: [{ kind: 'status', status: 500 } as const] }],
    [{ text: 'error within', faults: [{ kind: 'error', afterPieces: 1 } as const] }],
  ];
  const seen: string[] = [];
  for (const plan of plans) {
    const accepted = await call('POST', `${world.url}/v1/runs`, { agent: 'hands', input: planInput(...plan) }, headers);
    expect(accepted.status).toBe(202);
    const observed = await world.ended(accepted.body);
    seen.push(JSON.stringify(observed.view), ...observed.events.map((event) => JSON.stringify(event)));
  }
  for (const path of ['/metrics', '/openapi.json', '/readyz', '/v1/runs', '/v1/nonesuch']) {
    seen.push(JSON.stringify((await call('GET', `${world.url}${path}`, undefined, headers)).body));
  }
  seen.push(JSON.stringify((await call('POST', `${world.url}/v1/runs`, `{"agent": "${apiKey}`, headers)).body));

  const sinks = {
    answers: seen.join('\n'),
    logs: world.fleet.output,
    database: await dump(redis.url),
    files: await filesUpToNow(redis),
  };
  expect(sinks.files).toContain('run.completed');
  expect(sinks.database).toContain('run.completed');
  for (const [sink, text] of Object.entries(sinks)) {
    for (const form of [...formsOf(providerKey), ...formsOf(apiKey)]) {
      const at = text.indexOf(form);
      expect(at < 0 ? '' : text.slice(Math.max(0, at - 200), at + 100), `${form} in ${sink}`).toBe('');
    }
  }
});

test('a payload with a field that is named like a credential is refused and leaves nothing', async () => {
  const world = await makeWorld({ producer: true, workers: 0 });
  const answer = await call('POST', `${world.url}/v1/runs`, {
    agent: 'plain',
    input: 'x',
    metadata: { api_key: 'abc' },
  });
  expect([answer.status, answer.body.error.code]).toEqual([422, 'secret_in_payload']);
  expect(JSON.stringify(answer.body)).not.toContain('abc');
  expect((await world.mill.list()).runs).toEqual([]);
});

/** The files of Redis once they hold everything that was written before: it writes them in order, and late while a sync is slow. */
async function filesUpToNow(redis: OwnRedis): Promise<string> {
  const mark = newNonce();
  const client = connect(redis.url, 'work', () => {});
  await client.set('mark', mark);
  client.disconnect();
  return await until('the files to hold the last write', () => {
    const { files } = redis;
    return files.includes(mark) ? files : undefined;
  });
}

/** The text of every key. */
async function dump(url: string): Promise<string> {
  const redis = connect(url, 'work', () => {});
  const parts: string[] = [];
  for (const key of await redis.keys('*')) {
    const type = await redis.type(key);
    const read: Record<string, () => Promise<unknown>> = {
      string: () => redis.get(key),
      hash: () => redis.hgetall(key),
      list: () => redis.lrange(key, 0, -1),
      set: () => redis.smembers(key),
      zset: () => redis.zrange(key, '0', '-1'),
      stream: () => redis.xrange(key, '-', '+'),
    };
    parts.push(key, JSON.stringify(await read[type]?.()));
  }
  redis.disconnect();
  return parts.join('\n');
}
