import { problemsAt } from '../../../shared/base/problems.ts';
import { defined } from '../../../shared/base/collections.ts';
import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import type { ProviderLimits } from '../../../shared/contract/limits.ts';
import { mediaModality } from '../../../shared/contract/media.ts';
import { sensitivity } from '../../../shared/contract/message.ts';
import { usdToMicrocents } from '../../../shared/contract/money.ts';
import { readYamlFile } from '../../../shared/base/yaml-file.ts';
import { baseUrlProblem, type EgressRule } from '../base-url.ts';
import { priceEntry } from '../prices.ts';
import { inputKind, type MediaOffer } from '../provider.ts';

const perMinute = z.int().min(1).max(1_000_000_000);

export const providerLimits = z.strictObject({
  requestsPerMinute: perMinute.optional(),
  tokensPerMinute: perMinute.optional(),
  maxInFlight: z.int().min(1).max(1_000_000).optional(),
  /** Milliseconds over which the provider enforces its limits, where that is not a minute. */
  windowMs: z.int().min(100).max(3_600_000).optional(),
});

/** A model that is given an input it does not name is skipped. */
const inputKinds = z
  .array(inputKind)
  .min(1)
  .refine((kinds) => kinds.includes('text'), 'must include text');

const modelEntry = z.strictObject({
  model: z.string().min(1),
  /** Stand for those of the provider, field by field. */
  limits: providerLimits.optional(),
  /** `false`: does not reason, and refuses to be asked for it. */
  reasoning: z.boolean().optional(),
  /** Tokens of prompt and answer together that it takes. */
  contextWindow: z.int().min(1_000).max(100_000_000).optional(),
  /** What it reads. Default: that of the provider. */
  input: inputKinds.optional(),
});

/** A model that makes images, sound or video instead of text. Models that no entry names are chat models. */
const mediaEntry = z.strictObject({
  model: z.string().min(1),
  surface: z.literal('generative').default('generative'),
  modality: mediaModality,
  /** Price of an image, or of a second of sound or video. */
  unitUsd: z.number().min(0).max(10_000).optional(),
});

const providerEntry = z
  .strictObject({
    id: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, 'must be lower-case letters, digits, _ and -'),
    kind: z.enum(['openai', 'openai-responses']),
    baseUrl: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }),
    /** Name of the environment variable that holds the key. Servers without keys leave it out. */
    keyEnv: z.string().min(1).optional(),
    organization: z.string().min(1).optional(),
    limits: providerLimits.optional(),
    models: z.array(modelEntry).max(1_000).default([]),
    media: z.array(mediaEntry).max(1_000).default([]),
    prices: z
      .array(priceEntry.omit({ provider: true }))
      .max(1_000)
      .default([]),
    capabilities: z
      .strictObject({
        tools: z.boolean().optional(),
        reasoning: z.boolean().optional(),
        /** It keeps to a JSON Schema that a request names, so that the shape need not be described in words as well. */
        responseFormat: z.boolean().optional(),
        /** What its models read. Default: text, image and pdf. */
        input: inputKinds.optional(),
      })
      .optional(),
    streaming: z.boolean().optional(),
    acceptsSensitivity: z.array(sensitivity).optional(),
    idempotencyHeader: z
      .union([z.string().regex(/^[A-Za-z0-9-]{1,64}$/), z.literal(false)], 'must be the name of a header, or false')
      .optional(),
    metadata: z.boolean().optional(),
    reasoningSummary: z.enum(['auto', 'concise', 'detailed']).optional(),
    sessions: z.boolean().optional(),
  })
  .superRefine(({ kind, sessions, reasoningSummary, models, media, prices }, context) => {
    const problem = (message: string, ...path: (string | number)[]) =>
      context.addIssue({ code: 'custom', path, message });
    const onlyResponses = 'has a meaning for kind openai-responses only';
    if (kind === 'openai' && sessions !== undefined) problem(onlyResponses, 'sessions');
    if (kind === 'openai' && reasoningSummary !== undefined) problem(onlyResponses, 'reasoningSummary');
    for (const [field, rows] of Object.entries({ models, media, prices })) {
      for (const [index, { model }] of rows.entries()) {
        if (rows.findIndex((row) => row.model === model) < index)
          problem(`${model} is there twice`, field, index, 'model');
      }
    }
  });

/** One provider of the file, with its key. */
export type ProviderEntry = z.output<typeof providerEntry> & { readonly key: string | undefined };

const entries = z.array(z.unknown()).min(1, 'must name at least one provider').max(100);

/**
 * Reads a providers file. Throws `invalid_config` whose details list every problem of every entry at once: wrong fields,
 * ids that are there twice, keys that are not set, base URLs that the rule refuses.
 */
export function readProvidersFile(
  path: string,
  rule: EgressRule,
  env: (name: string) => string | undefined,
): ProviderEntry[] {
  const rows = readYamlFile(path, entries);
  const problems: string[] = [];
  const found: ProviderEntry[] = [];
  const seen = new Set<string>();
  for (const [index, row] of rows.entries()) {
    const { id, keyEnv, baseUrl } = looseEntry.safeParse(row).data ?? {};
    const parsed = providerEntry.safeParse(row);
    problems.push(...problemsAt(parsed.error, index));
    if (id !== undefined && seen.has(id)) problems.push(`${index}.id: ${id} is there twice`);
    if (id !== undefined) seen.add(id);
    const refused = baseUrl !== undefined && isHttp(baseUrl) ? baseUrlProblem(baseUrl, rule) : undefined;
    if (refused !== undefined) problems.push(`${index}.baseUrl: ${refused}`);
    const key = keyEnv === undefined ? undefined : env(keyEnv);
    if (keyEnv !== undefined && !key) {
      problems.push(`provider ${id ?? index}: the environment variable ${keyEnv} is not set`);
    }
    if (parsed.success) found.push({ ...parsed.data, key });
  }
  if (problems.length === 0) return found;
  const named = problems.map((problem) => `${path}: ${problem}`);
  throw new RunError('invalid_config', named.join('\n'), { details: named });
}

/** What can be checked of an entry that has other problems. */
const looseEntry = z.object({
  id: z.string().optional().catch(undefined),
  keyEnv: z.string().min(1).optional().catch(undefined),
  baseUrl: z.string().optional().catch(undefined),
});

function isHttp(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

/** What an entry allows for a model: its own limits, field by field, before those of the provider. */
export function limitsIn({ limits: shared, models }: ProviderEntry, model: string): ProviderLimits | undefined {
  const own = models.find((row) => row.model === model)?.limits;
  return shared || own ? defined({ ...shared, ...own }) : undefined;
}

/** What a model makes, by its entry; undefined for chat models. */
export function mediaIn({ media }: Pick<ProviderEntry, 'media'>, model: string): MediaOffer | undefined {
  const row = media.find((one) => one.model === model);
  if (!row) return undefined;
  const { modality, unitUsd } = row;
  return defined({ modality, unitMicrocents: unitUsd === undefined ? undefined : usdToMicrocents(unitUsd) });
}
