import { expect, test } from 'vitest';
import { costOf } from '../../../src/worker/llm/cost.ts';
import { createPriceLookup, loadPrices, priceDataDate } from '../../../src/worker/llm/prices.ts';
import { scratchFile } from './scratch-file.ts';

const now = new Date('2026-11-01T00:00:00Z');
const thousand = { input: 1_000, output: 1_000, cached: 0, cacheWrite: 0, total: 2_000 };

test('public prices are known, also cached and tiered ones', () => {
  const lookup = createPriceLookup();
  expect(lookup('openai', 'gpt-4o-mini', now)).toEqual({
    input: 15_000_000,
    output: 60_000_000,
    cached: 7_500_000,
    cacheWrite: 15_000_000,
  });
  const tiered = lookup('openai', 'gpt-5.4', now);
  expect(tiered && costOf({ ...thousand, input: 300_000 }, tiered)).toBe(300_000 * 500 + 1_000 * 2_250);
});

test.each(['openai', 'scripted', 'anything'])('the models of the samples have a price at provider %s', (provider) => {
  const lookup = createPriceLookup();
  expect(lookup(provider, 'gpt-5.2-mini', now)).toMatchObject({
    input: 25_000_000,
    output: 200_000_000,
    cached: 2_500_000,
  });
  expect(lookup(provider, 'gpt-5.2-nano', now)).toMatchObject({
    input: 5_000_000,
    output: 40_000_000,
    cached: 500_000,
  });
});

test('the scripted provider shows the price of the model it stands in for', () => {
  const lookup = createPriceLookup();
  expect(lookup('scripted', 'gpt-4o-mini', now)).toEqual(lookup('openai', 'gpt-4o-mini', now));
});

test('a price that changes with time is that of the moment asked for', () => {
  const lookup = createPriceLookup();
  const before = lookup('openai', 'o3', new Date('2025-06-01T00:00:00Z'));
  const after = lookup('openai', 'o3', new Date('2025-07-01T00:00:00Z'));
  expect([before?.input, after?.input]).toEqual([1_000_000_000, 200_000_000]);
});

test('an unknown model has no price', () => {
  const lookup = createPriceLookup();
  expect(lookup('openai', 'my-own-model', now)).toBeUndefined();
  expect(lookup('my-own-provider', 'gpt-4o-mini', now)).toBeUndefined();
});

const file = `
date: 2026-10-01
prices:
  - { model: gpt-4o-mini, inputUsdPerMillion: 1, outputUsdPerMillion: 2 }
  - { provider: mine, model: gpt-4o-mini, inputUsdPerMillion: 0.5, outputUsdPerMillion: 3, cachedUsdPerMillion: 0.05, cacheWriteUsdPerMillion: 0.6 }
`;

test('a price file overrides, for one provider or for any', () => {
  const lookup = createPriceLookup(scratchFile('prices.yaml', file));
  expect(lookup('openai', 'gpt-4o-mini', now)).toEqual({
    input: 100_000_000,
    output: 200_000_000,
    cached: 100_000_000,
    cacheWrite: 100_000_000,
  });
  expect(lookup('mine', 'gpt-4o-mini', now)).toEqual({
    input: 50_000_000,
    output: 300_000_000,
    cached: 5_000_000,
    cacheWrite: 60_000_000,
  });
});

test('a price file has a date of its own, and the shipped data has one', () => {
  expect(loadPrices(scratchFile('prices.yaml', file)).date).toBe('2026-10-01');
  expect(priceDataDate).toMatch(/^\d{4}-\d{2}-\d{2}$/);
});

test('prices that come with a provider apply to it', () => {
  const lookup = createPriceLookup(undefined, [
    { provider: 'mine', model: 'x', inputUsdPerMillion: 1, outputUsdPerMillion: 1 },
  ]);
  expect(lookup('mine', 'x', now)?.input).toBe(100_000_000);
  expect(lookup('openai', 'x', now)).toBeUndefined();
});

test('every problem of a price file is reported at once', () => {
  const path = scratchFile(
    'prices.yaml',
    'date: yesterday\nprices:\n  - { model: m, inputUsdPerMillion: -1, output: 2 }\n',
  );
  expect(() => loadPrices(path)).toThrow(
    expect.objectContaining({
      code: 'invalid_config',
      details: expect.arrayContaining([
        expect.stringContaining('date'),
        expect.stringContaining('prices.0.inputUsdPerMillion'),
        expect.stringContaining('prices.0.outputUsdPerMillion'),
        expect.stringContaining('prices.0.output: is not a known field'),
      ]),
    }),
  );
});

test('of two prices for one model the first applies, and a field that is there twice is a problem', () => {
  const twice = [1, 2].map((usd) => ({ model: 'x', inputUsdPerMillion: usd, outputUsdPerMillion: usd }));
  expect(createPriceLookup(undefined, twice)('p', 'x', now)?.input).toBe(100_000_000);
  expect(() => loadPrices(scratchFile('prices.yaml', 'date: 2026-10-01\ndate: 2026-10-02\nprices: []\n'))).toThrow(
    /unique/,
  );
});

test('a file that is no YAML, or is not there, is a configuration error', () => {
  expect(() => loadPrices(scratchFile('prices.yaml', 'a: [1\nb: }'))).toThrow(
    expect.objectContaining({ code: 'invalid_config' }),
  );
  expect(() => loadPrices('/nowhere/prices.yaml')).toThrow(expect.objectContaining({ code: 'invalid_config' }));
});
