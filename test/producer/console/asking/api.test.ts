import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { api, asApiError, blobAt } from '../../../../src/producer/console/api.ts';

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const leave = new AbortController().signal;
const away = { code: 'unreachable', retryable: true };

test('a request that a view may leave has a deadline as well', async () => {
  const url = await serve(() => {});
  await expect(api(url, { signal: leave, deadlineMs: 50 })).rejects.toMatchObject(away);
  await expect(api(url, { deadlineMs: 50 })).rejects.toMatchObject(away);
});

test('the deadline holds until the whole answer is there', async () => {
  const url = await serve((_, response) => response.writeHead(200).write('{"half":'));
  await expect(api(url, { signal: leave, deadlineMs: 50 })).rejects.toMatchObject(away);
  await expect(blobAt(url, { signal: leave, deadlineMs: 50 })).rejects.toMatchObject(away);
});

test('an answer that breaks off is one that may come later', async () => {
  const url = await serve((_, response) => response.writeHead(200).write('{"half":', () => response.destroy()));
  await expect(api(url)).rejects.toMatchObject(away);
});

test('what is left is no failure of the producer', async () => {
  const url = await serve(() => {});
  const left = new AbortController();
  const asked = api(url, { signal: left.signal });
  left.abort();
  const error: unknown = await asked.catch((thrown: unknown) => thrown);
  expect(asApiError(error)).toMatchObject({ code: 'console', retryable: false });
});
