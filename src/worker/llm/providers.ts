import { z } from 'zod';
import type { Config } from '../../shared/config.ts';
import { RunError } from '../../shared/errors.ts';
import { createBuiltinScript } from './builtin-script.ts';
import { createOpenAiChatProvider } from './openai-chat.ts';
import { priceEntry, type PriceEntry } from './prices.ts';
import type { LlmProvider } from './provider.ts';
import { loadScript } from './script-file.ts';
import { createScriptedProvider } from './scripted.ts';
import { createTransport } from './transport.ts';
import { readYamlFile } from './yaml-file.ts';

const openAiUrl = 'https://api.openai.com/v1';
const defaultId = 'openai';

const providerEntry = z.strictObject({
  id: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, 'must be lower-case letters, digits, _ and -'),
  kind: z.literal('openai'),
  baseUrl: z.url({ protocol: /^https?$/ }),
  /** Name of the environment variable that holds the key. Servers without keys leave it out. */
  keyEnv: z.string().min(1).optional(),
  organization: z.string().min(1).optional(),
  prices: z.array(priceEntry.omit({ provider: true })).default([]),
});
type ProviderEntry = z.infer<typeof providerEntry>;

const providersFile = z
  .array(providerEntry)
  .min(1)
  .max(100)
  .superRefine((entries, context) => {
    const seen = new Set<string>();
    for (const [index, { id }] of entries.entries()) {
      if (seen.has(id)) context.addIssue({ code: 'custom', path: [index, 'id'], message: `${id} is there twice` });
      seen.add(id);
    }
  });

/** The model providers of a process. */
export interface Providers {
  /** Who serves a model, and the model's name there; undefined when nobody does. `provider` names one by its id. */
  providerFor(model: string, provider?: string): { readonly provider: LlmProvider; readonly model: string } | undefined;
  /** Nothing was configured, so the built-in script answers. */
  readonly scripted: boolean;
  /** Keys, for the redactor. */
  readonly secrets: readonly string[];
  /** Prices that came with the providers. */
  readonly prices?: readonly PriceEntry[];
}

export interface ProvidersDeps {
  /** Reads an environment variable that a providers file names. */
  readonly env: (name: string) => string | undefined;
}

/**
 * Sets up what the configuration names: a script, or the default provider and those of the providers file. With nothing
 * named the built-in script answers, except in production. Throws `invalid_config` listing every problem.
 */
export function createProviders(config: Config, { env }: ProvidersDeps): Providers {
  if (config.MILLRACE_SCRIPT) return onlyScript(config.MILLRACE_SCRIPT, false);
  const entries = config.MILLRACE_PROVIDERS ? withKeys(config.MILLRACE_PROVIDERS, env) : [];
  const usesDefault = Boolean(config.OPENAI_API_KEY ?? config.OPENAI_BASE_URL);
  if (!usesDefault && entries.length === 0) return withoutAny(config);

  const shared = {
    startTimeoutMs: config.LLM_START_TIMEOUT_MS,
    idleTimeoutMs: config.LLM_IDLE_TIMEOUT_MS,
    dispatcher: createTransport(),
  };
  const byId = new Map<string, LlmProvider>();
  for (const { id, baseUrl, key, organization } of entries) {
    byId.set(id, createOpenAiChatProvider({ ...shared, id, baseUrl, apiKey: key ?? 'none', organization }));
  }
  if (usesDefault && !byId.has(defaultId)) {
    const baseUrl = config.OPENAI_BASE_URL ?? openAiUrl;
    byId.set(
      defaultId,
      createOpenAiChatProvider({ ...shared, id: defaultId, baseUrl, apiKey: config.OPENAI_API_KEY ?? 'none' }),
    );
  }
  // Routers name their models `openai/…` themselves: only OpenAI's own server never sees such a name.
  const prefixes = new Set([...entries.map(({ id }) => id), ...(config.OPENAI_BASE_URL ? [] : [defaultId])]);
  return {
    providerFor: (model, provider) => find(byId, prefixes, model, provider),
    scripted: false,
    secrets: [config.OPENAI_API_KEY, ...entries.map(({ key }) => key)].filter((key) => key !== undefined),
    prices: entries.flatMap(({ id, prices }) => prices.map((price) => ({ ...price, provider: id }))),
  };
}

/** By the given id, else by `provider/model`, else the default provider, else the only one there is. */
function find(byId: ReadonlyMap<string, LlmProvider>, prefixes: ReadonlySet<string>, model: string, provider?: string) {
  const slash = model.indexOf('/');
  const prefix = slash > 0 ? model.slice(0, slash) : undefined;
  const named =
    prefix !== undefined && prefixes.has(prefix) && (provider === undefined || provider === prefix)
      ? prefix
      : undefined;
  const id = provider ?? named ?? (byId.has(defaultId) || byId.size > 1 ? defaultId : [...byId.keys()][0]);
  const found = id === undefined ? undefined : byId.get(id);
  return found && { provider: found, model: named === undefined ? model : model.slice(slash + 1) };
}

function withKeys(path: string, env: ProvidersDeps['env']): (ProviderEntry & { readonly key: string | undefined })[] {
  const entries = readYamlFile(path, providersFile).map((entry) => ({
    ...entry,
    key: entry.keyEnv === undefined ? undefined : env(entry.keyEnv),
  }));
  const problems = entries
    .filter((entry) => entry.keyEnv !== undefined && !entry.key)
    .map((entry) => `${path}: provider ${entry.id}: the environment variable ${entry.keyEnv} is not set`);
  if (problems.length > 0) throw new RunError('invalid_config', problems.join('\n'), { details: problems });
  return entries;
}

function withoutAny(config: Config): Providers {
  if (config.NODE_ENV !== 'production') return onlyScript('builtin', true);
  const problem = 'no model provider is configured: set OPENAI_API_KEY, OPENAI_BASE_URL or MILLRACE_PROVIDERS';
  throw new RunError('invalid_config', problem, { details: [problem] });
}

function onlyScript(source: string, scripted: boolean): Providers {
  const provider = createScriptedProvider(source === 'builtin' ? createBuiltinScript() : loadScript(source));
  return { providerFor: (model) => ({ provider, model }), scripted, secrets: [] };
}
