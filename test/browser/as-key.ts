import { expect } from 'vitest';
import { sha256 } from '../../src/shared/base/ids.ts';
import type { ConsolePage } from './support.ts';

/** Keys of the tests of a view: of an operator, of one who may only look, and of another tenant. */
export const apiKeys = [
  `${sha256('key-of-all')}:default:*`,
  `${sha256('key-of-looker')}:default:read`,
  `${sha256('key-of-south')}:south:*`,
].join(',');

/** Opens a view as somebody with this key. */
export async function visitAs(opened: ConsolePage, url: string, key: string, path: string): Promise<void> {
  const headers = { 'x-millrace-console': '1', origin: url };
  const answer = await opened.page.request.post(`${url}/v1/session`, { data: { apiKey: key }, headers });
  expect(answer.status()).toBe(200);
  await opened.visit(path);
}
