import { expect, test } from 'vitest';
import { untrustedPreamble } from '../../../src/worker/prompt/system-prompt.ts';
import { sanitise } from '../../../src/worker/guards/sanitise.ts';

const locales = ['en', 'de', 'fr', 'es', 'it', 'pt', 'nl', 'ja', 'zh'];

test('every language has words of its own, which name the markers', () => {
  const texts = locales.map(untrustedPreamble);
  expect(new Set(texts).size).toBe(locales.length);
  for (const text of texts) {
    expect(text).toContain('<<<UNTRUSTED_CONTENT');
    expect(text).toContain('<<<END_UNTRUSTED_CONTENT');
  }
});

test.each([
  ['de-AT', 'de'],
  ['PT-br', 'pt'],
  ['zh-Hant-TW', 'zh'],
  ['sw', 'en'],
  ['constructor', 'en'],
])('%s gets %s', (locale, language) => {
  expect(untrustedPreamble(locale)).toBe(untrustedPreamble(language));
});

test('the markers that it names are those that results have', () => {
  const { text } = sanitise('x', { trust: 'mcp-derived', toolName: 't', nonce: 'n0nce' });
  const [begin = '', , end = ''] = text.split('\n');
  for (const line of [begin, end]) expect(untrustedPreamble('en')).toContain(line.split(' ', 1)[0]);
});
