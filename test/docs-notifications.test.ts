import { expect, test } from 'vitest';
import { serverWorld } from './producer/http/server-world.ts';
import { docsPage, pageCommands, requestOf } from './support/docs-page.ts';
import { codeBlocks } from './support/markdown.ts';
import { testPrefix, testRedis } from './support/redis.ts';

const page = docsPage('notifications.md');

test('Redis understands the commands of a consumer group on the page', async () => {
  const redis = await testRedis();
  const stream = `${testPrefix()}:lifecycle`;
  await redis.xadd(stream, '1-0', 'e', '{}');
  const answers: unknown[] = [];
  for (const line of codeBlocks(page, 'text').join('').trim().split('\n')) {
    const [name = '', ...args] = line.replace('mr:lifecycle', stream).replace(' ID', ' 1-0').split(' ');
    answers.push(await redis.call(name, ...args));
  }
  expect(answers).toMatchObject(['OK', expect.anything(), 1, ['0-0', [], []]]);
  expect(JSON.stringify(answers[1])).toContain(JSON.stringify(['1-0', ['e', '{}']]));
});

test('every request on the page is one that the producer understands', async () => {
  const { send } = await serverWorld();
  for (const command of pageCommands(page, 'curl')) {
    const { method, path } = requestOf(command);
    const answer = await send(method, path);
    expect([command, answer.body.error?.code]).toEqual([command, 'invalid_id']);
  }
});
