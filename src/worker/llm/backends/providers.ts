import { defined } from '../../../shared/base/collections.ts';
import type { Config } from '../../../shared/contract/config.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { baseUrlProblem, type EgressRule } from '../base-url.ts';
import { createBuiltinScript } from './builtin-script.ts';
import { createOpenAiChatProvider } from '../openai/chat.ts';
import { credentialOf, type OpenAiOptions } from '../openai/call.ts';
import { createOpenAiMedia } from '../openai/media.ts';
import { createOpenAiResponsesProvider } from '../openai/responses.ts';
import { askForModels } from '../openai/endpoint.ts';
import type { ProviderReport } from '../../../shared/contract/provider-report.ts';
import type { PriceEntry } from '../prices.ts';
import type { LlmProvider } from '../provider.ts';
import { limitsIn, mediaIn, readProvidersFile, type ProviderEntry } from './providers-file.ts';
import { loadModelScript } from './script-file.ts';
import { createScriptedProvider } from './scripted.ts';
import { createTransport } from '../openai/transport.ts';

const openAiUrl = 'https://api.openai.com/v1';
const defaultId = 'openai';
/** Servers without keys take any. */
const noKey = 'none';

/** Reads an environment variable that a providers file names. */
type Variables = (name: string) => string | undefined;
type Shared = Pick<OpenAiOptions, 'startTimeoutMs' | 'idleTimeoutMs' | 'dispatcher'>;

/** A provider as its worker reports it. */
export interface ProviderAbout extends Pick<
  ProviderReport,
  'id' | 'kind' | 'host' | 'hasKey' | 'requestsPerMinute' | 'tokensPerMinute'
> {
  /** Answers the HTTP status of its list of models. Rejects when it cannot be reached. */
  readonly look?: (signal: AbortSignal) => Promise<number>;
}

export interface Providers {
  /** Who serves a model, and the model's name there; undefined when no provider does. `provider` names one by its id. */
  providerFor(model: string, provider?: string): { readonly provider: LlmProvider; readonly model: string } | undefined;
  /** A provider that the author of an agent brings, as one of these is: behind the same middlewares, without its keys in texts. */
  readonly guard?: (provider: LlmProvider) => LlmProvider;
  /** Nothing was configured, so the built-in script answers. */
  readonly scripted: boolean;
  /** Keys, for the redactor. */
  readonly secrets: readonly string[];
  /** What there is to report about each of them. */
  readonly about: readonly ProviderAbout[];
  readonly models?: readonly string[];
  readonly prices?: readonly PriceEntry[];
}

/**
 * A caller's own answer to who serves a model: a provider by its id, or one that it brings along. `undefined` leaves the
 * name to the configuration.
 */
export type ModelResolver = (
  model: string,
  provider: string | undefined,
) => { readonly provider: string | LlmProvider; readonly model: string } | undefined;

/** The providers, with the resolver asked first. Its throw is `internal`. */
export function withResolver(providers: Providers, resolve: ModelResolver | undefined): Providers {
  if (!resolve) return providers;
  return {
    ...providers,
    providerFor(model, provider) {
      const found = asked(resolve, model, provider);
      if (!found) return providers.providerFor(model, provider);
      if (typeof found.provider === 'string') return providers.providerFor(found.model, found.provider);
      return { provider: found.provider, model: found.model };
    },
  };
}

function asked(resolve: ModelResolver, model: string, provider: string | undefined) {
  try {
    return resolve(model, provider);
  } catch (cause) {
    throw new RunError('internal', `resolveModel failed for model ${model}`, { cause });
  }
}

/**
 * Sets up what the configuration names: a script, or the default provider and those of the providers file. With nothing
 * named the built-in script answers, except in production. Throws `invalid_config` listing every problem.
 */
export function createProviders(config: Config, env: Variables): Providers {
  if (config.MILLRACE_SCRIPT) return onlyScript(config.MILLRACE_SCRIPT, false);
  const rule = { allowedHosts: config.LLM_ALLOWED_HOSTS, production: config.NODE_ENV === 'production' };
  const entries = config.MILLRACE_PROVIDERS ? readProvidersFile(config.MILLRACE_PROVIDERS, rule, env) : [];
  const usesDefault = Boolean(config.OPENAI_API_KEY ?? config.OPENAI_BASE_URL);
  if (!usesDefault && entries.length === 0) return withoutAny(config);

  const shared: Shared = {
    startTimeoutMs: config.LLM_START_TIMEOUT_MS,
    idleTimeoutMs: config.LLM_IDLE_TIMEOUT_MS,
    dispatcher: createTransport(rule),
  };
  const byId = new Map(entries.map((entry) => [entry.id, fromEntry(entry, shared, env)]));
  if (usesDefault && !byId.has(defaultId)) byId.set(defaultId, defaultProvider(config, shared, rule));
  // Routers name their models `openai/…` themselves: only OpenAI's own server never sees such a name.
  const isRouter = config.OPENAI_BASE_URL !== undefined && !entries.some(({ id }) => id === defaultId);
  const prefixes = new Set([...byId.keys()].filter((id) => !isRouter || id !== defaultId));
  return {
    providerFor: (model, provider) => find(byId, prefixes, model, provider),
    scripted: false,
    about: [...byId.keys()].map((id) => aboutOf(id, entries, config, shared)),
    secrets: [config.OPENAI_API_KEY, ...entries.map(({ key }) => key)].filter((key) => key !== undefined),
    models: entries.flatMap(({ models, media }) => [...models, ...media].map(({ model }) => model)),
    prices: entries.flatMap(({ id, prices }) => prices.map((price) => ({ ...price, provider: id }))),
  };
}

function aboutOf(id: string, entries: readonly ProviderEntry[], config: Config, { dispatcher }: Shared): ProviderAbout {
  const entry = entries.find((one) => one.id === id);
  const { OPENAI_BASE_URL = openAiUrl, OPENAI_API_KEY } = config;
  const { kind, baseUrl, key } = entry ?? { kind: 'openai' as const, baseUrl: OPENAI_BASE_URL, key: OPENAI_API_KEY };
  return defined({
    id,
    kind,
    host: new URL(baseUrl).host,
    hasKey: key !== undefined,
    requestsPerMinute: entry?.limits?.requestsPerMinute,
    tokensPerMinute: entry?.limits?.tokensPerMinute,
    look: (signal: AbortSignal) => askForModels({ baseUrl, key, dispatcher }, signal),
  });
}

/**
 * By the given id, else by `provider/model`, else by what is usual in names of models, else the default provider, else
 * the only one there is.
 */
function find(byId: ReadonlyMap<string, LlmProvider>, prefixes: ReadonlySet<string>, name: string, provider?: string) {
  const { family, model: bare, prefixed } = modelFamilyOf(name);
  const model = name.trim();
  const slash = model.indexOf('/');
  const prefix = slash > 0 && slash < model.length - 1 ? model.slice(0, slash) : undefined;
  const serve = (id: string | undefined, as: string) => {
    const found = id === undefined ? undefined : byId.get(id);
    return found && { provider: found, model: as };
  };
  if (prefix !== undefined && prefixes.has(prefix) && (provider === undefined || provider === prefix))
    return serve(prefix, model.slice(slash + 1));
  if (provider !== undefined) return serve(provider, model);
  // Without a provider of that name the whole name is one that the default provider knows: a router's.
  if (prefixed ? prefixes.has(family) : byId.has(family)) return serve(family, bare);
  return serve(byId.has(defaultId) || byId.size > 1 ? defaultId : [...byId.keys()][0], model);
}

function defaultProvider(config: Config, shared: Shared, rule: EgressRule): LlmProvider {
  const { OPENAI_BASE_URL: baseUrl = openAiUrl, OPENAI_API_KEY: apiKey = noKey } = config;
  const problem = baseUrlProblem(baseUrl, rule);
  if (problem !== undefined) {
    throw new RunError('invalid_config', `OPENAI_BASE_URL: ${problem}`, { details: [`OPENAI_BASE_URL: ${problem}`] });
  }
  // Of OpenAI's own server it is known; servers that speak like it often look past a response format.
  const capabilities = { responseFormat: baseUrl === openAiUrl };
  return createOpenAiChatProvider({ ...shared, id: defaultId, baseUrl, apiKey, capabilities });
}

function fromEntry(entry: ProviderEntry, shared: Shared, env: Variables): LlmProvider {
  const { key, keyEnv, models, media, streaming, metadata, limits: _, capabilities: offered = {}, ...options } = entry;
  const { input, ...capabilities } = offered;
  const inputOf = (model: string) => models.find((row) => row.model === model)?.input ?? input;
  const openAi = {
    ...shared,
    ...options,
    capabilities,
    // Read at every attempt: `onAuthError` may have put a fresh one there.
    apiKey: keyEnv === undefined ? noKey : () => env(keyEnv) ?? '',
    credential: credentialOf(entry.baseUrl, key ?? noKey),
    streams: streaming,
    sendsMetadata: metadata,
    limitsOf: (model: string) => limitsIn(entry, model),
    inputOf,
  };
  const contextWindowOf = (model: string) => models.find((row) => row.model === model)?.contextWindow;
  const making = media.length > 0 && {
    mediaOf: (model: string) => mediaIn(entry, model),
    media: createOpenAiMedia(openAi),
  };
  if (entry.kind === 'openai') return { ...createOpenAiChatProvider(openAi), ...making, contextWindowOf };
  const reasons = (model: string) => models.find((row) => row.model === model)?.reasoning ?? true;
  return { ...createOpenAiResponsesProvider({ ...openAi, reasons }), ...making, contextWindowOf };
}

function withoutAny(config: Config): Providers {
  if (config.NODE_ENV !== 'production') return onlyScript('builtin', true);
  const problem = 'no model provider is configured: set OPENAI_API_KEY, OPENAI_BASE_URL or MILLRACE_PROVIDERS';
  throw new RunError('invalid_config', problem, { details: [problem] });
}

function onlyScript(source: string, scripted: boolean): Providers {
  const provider = createScriptedProvider(source === 'builtin' ? createBuiltinScript() : loadModelScript(source));
  const about = [{ id: provider.id, kind: scripted ? 'builtin' : 'scripted', hasKey: false } as const];
  return { providerFor: (model) => ({ provider, model }), scripted, about, secrets: [] };
}

/** Whose kind of name a model's name is, and the name without the prefix of its kind. */
interface NamedModel {
  readonly family: 'openai' | 'anthropic' | 'litellm' | 'ollama' | 'generic';
  readonly model: string;
  /** The family was written in front of the name. */
  readonly prefixed: boolean;
}

const prefixes: Readonly<Record<string, NamedModel['family']>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  claude: 'anthropic',
  litellm: 'litellm',
  ollama: 'ollama',
};

/** Reads the name of a model by what is usual in names. Throws `invalid_config` for a blank one. */
export function modelFamilyOf(name: string): NamedModel {
  const trimmed = name.trim();
  if (trimmed === '') throw new RunError('invalid_config', 'the name of a model must not be blank');
  const slash = trimmed.indexOf('/');
  const family = slash > 0 ? prefixes[trimmed.slice(0, slash)] : undefined;
  if (family !== undefined && slash < trimmed.length - 1)
    return { family, model: trimmed.slice(slash + 1), prefixed: true };
  const usual = trimmed.startsWith('gpt') ? 'openai' : trimmed.startsWith('claude') ? 'anthropic' : 'generic';
  return { family: usual, model: trimmed, prefixed: false };
}
