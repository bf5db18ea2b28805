import { calcPrice, findProvider, type ModelPrice } from '@pydantic/genai-prices';
import { z } from 'zod';
import { usdToMicrocents } from '../../shared/contract/money.ts';
import type { Price, PriceLookup, Rate } from './cost.ts';
import { readYamlFile } from '../../shared/base/yaml-file.ts';

/** The day on which the prices that ship with this version were published. A price file has a date of its own. */
export const priceDataDate = '2026-09-23';

const maxRemembered = 1_000;

const usdPerMillion = z.number().min(0).max(100_000);

/** A price as people write it. Cached tokens cost as much as others unless given; no provider means any. */
export const priceEntry = z.strictObject({
  provider: z.string().min(1).optional(),
  model: z.string().min(1),
  inputUsdPerMillion: usdPerMillion,
  outputUsdPerMillion: usdPerMillion,
  cachedUsdPerMillion: usdPerMillion.optional(),
  cacheWriteUsdPerMillion: usdPerMillion.optional(),
});
export type PriceEntry = z.infer<typeof priceEntry>;

const priceFile = z.strictObject({
  /** The day on which the prices were looked up. */
  date: z.iso.date(),
  prices: z.array(priceEntry).max(10_000),
});

/** The models that the documentation and the samples use, which the public data does not list. */
const samplePrices: readonly PriceEntry[] = [
  { model: 'gpt-5.2-mini', inputUsdPerMillion: 0.25, outputUsdPerMillion: 2, cachedUsdPerMillion: 0.025 },
  { model: 'gpt-5.2-nano', inputUsdPerMillion: 0.05, outputUsdPerMillion: 0.4, cachedUsdPerMillion: 0.005 },
];

/** The scripted provider shows what the model it stands in for would have cost. */
const pricedAs: Readonly<Record<string, string>> = { scripted: 'openai' };

/** Reads a price file. Throws `invalid_config` whose details list every problem. */
export function loadPrices(path: string) {
  return readYamlFile(path, priceFile);
}

/**
 * Prices by the file at `path` first, then by `entries`, then by the public data that ships with this version: nothing is
 * fetched. Throws what {@link loadPrices} throws; the lookup itself never throws.
 */
export function createPriceLookup(path?: string, entries: readonly PriceEntry[] = []): PriceLookup {
  const own = path === undefined ? [] : loadPrices(path).prices;
  const given = byName([...own, ...entries]);
  const samples = byName(samplePrices);
  const known = remembered(publicPrice);
  return (provider, model, at) =>
    find(given, provider, model) ?? known(provider, model, at) ?? find(samples, provider, model);
}

/** The models of a provider that the public data and the samples name: for suggestions, as most have more names. */
export function pricedModels(provider: string): readonly string[] {
  const found = findProvider({ providerId: pricedAs[provider] ?? provider });
  return [...(found?.models ?? []).map(({ id }) => id), ...samplePrices.map(({ model }) => model)];
}

/** Asking the public data costs as much as a hundred chunks, and its answers change at whole minutes only. */
function remembered(lookup: PriceLookup): PriceLookup {
  const answers = new Map<string, Price | undefined>();
  let minute = Number.NaN;
  return (provider, model, at) => {
    const now = Math.floor(at.getTime() / 60_000);
    // Callers may name any model: the memory of a minute is bounded too.
    if (now !== minute || answers.size >= maxRemembered) answers.clear();
    minute = now;
    const name = `${provider}\0${model}`;
    if (!answers.has(name)) answers.set(name, lookup(provider, model, at));
    return answers.get(name);
  };
}

/** The first entry of a name wins, as it does in the file for a reader. */
function byName(entries: readonly PriceEntry[]): ReadonlyMap<string, Price> {
  const prices = new Map<string, Price>();
  for (const entry of entries) {
    const name = `${entry.provider ?? '*'}\0${entry.model}`;
    if (!prices.has(name)) prices.set(name, priceOf(entry));
  }
  return prices;
}

function find(prices: ReadonlyMap<string, Price>, provider: string, model: string): Price | undefined {
  return prices.get(`${provider}\0${model}`) ?? prices.get(`*\0${model}`);
}

function priceOf(entry: PriceEntry): Price {
  return {
    input: usdToMicrocents(entry.inputUsdPerMillion),
    output: usdToMicrocents(entry.outputUsdPerMillion),
    cached: usdToMicrocents(entry.cachedUsdPerMillion ?? entry.inputUsdPerMillion),
    cacheWrite: usdToMicrocents(entry.cacheWriteUsdPerMillion ?? entry.inputUsdPerMillion),
  };
}

function publicPrice(provider: string, model: string, at: Date): Price | undefined {
  const found = calcPrice({}, model, { providerId: pricedAs[provider] ?? provider, timestamp: at })?.model_price;
  const input = found && rateOf(found['input_mtok']);
  const output = found && rateOf(found['output_mtok']);
  if (input === undefined || output === undefined) return undefined;
  const cached = rateOf(found?.['cache_read_mtok']) ?? input;
  return { input, output, cached, cacheWrite: rateOf(found?.['cache_write_mtok']) ?? input };
}

function rateOf(price: ModelPrice[string]): Rate | undefined {
  if (price === undefined || typeof price === 'number') return price === undefined ? undefined : usdToMicrocents(price);
  return {
    base: usdToMicrocents(price.base),
    tiers: price.tiers.map((tier) => ({ above: tier.start, rate: usdToMicrocents(tier.price) })),
  };
}
