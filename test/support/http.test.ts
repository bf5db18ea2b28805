import { createServer } from 'node:http';
import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { linesOf } from '../producer/chat/support.ts';
import { bodyOf } from './http.ts';
import { until } from './redis.ts';

const takers = [
  ['bodyOf', (response: Response) => linesOf(bodyOf(response))],
  ['linesOf', (response: Response) => linesOf(response.body as ReadableStream<Uint8Array>)],
] as const;

test.each(takers)('what %s has taken is read whole after its response was collected', async (_name, take) => {
  const server = createServer((_request, response) => void response.end('{"type":"first"}\n{"type":"last"}\n'));
  onTestFinished(() => void server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const collected: string[] = [];
  const registry = new FinalizationRegistry((name: string) => void collected.push(name));
  const ask = async () => {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    registry.register(response, 'response');
    return take(response);
  };
  const lines = await ask();
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  await until('the response is collected', () => {
    gc();
    return collected.length > 0;
  });
  expect(await Array.fromAsync(lines)).toEqual([{ type: 'first' }, { type: 'last' }]);
});
