import { z } from 'zod';
import { RunError } from '../../base/errors.ts';

const maxModelIdChars = 200;
const maxCatalogueBytes = 4 * 1024 * 1024;
const defaultTimeoutMs = 5_000;

/** A model that was asked for, and by which field: a blank name asks for none. */
export interface ModelCandidate<Source extends string> {
  readonly model: string | undefined;
  readonly source: Source;
}

/** The first candidate that names a model, trimmed; else the fallback, as `fallback`. */
export function resolveChatModel<Source extends string>(
  candidates: readonly ModelCandidate<Source>[],
  fallback: string,
): { readonly model: string; readonly source: Source | 'fallback' } {
  for (const { model, source } of candidates) {
    const name = model?.trim();
    if (name) return { model: name, source };
  }
  return { model: fallback, source: 'fallback' };
}

/** A model that a catalogue lists. */
export interface CatalogueModel {
  readonly id: string;
  /** Whose it is, as the catalogue says it. */
  readonly provider?: string;
}

/** What a router serves, as far as it is known. */
export interface ModelCatalogue {
  /** From a fresh copy, else asked for. Rejects with `provider_unavailable` when there is neither. */
  models(): Promise<readonly CatalogueModel[]>;
}

export type ModelVerdict =
  | { readonly ok: true; readonly model: string }
  | {
      readonly ok: false;
      readonly reason: 'malformed' | 'not_listed' | 'catalogue_unreachable';
      /** What is wrong and what to do. */
      readonly message: string;
      /** The same name may be accepted later. */
      readonly retryable: boolean;
    };

export interface ModelRules {
  /** Names that need no catalogue. */
  readonly allowlist?: readonly string[];
  /** A server with `/v1/models`, asked anew each time. */
  readonly routerBaseUrl?: string;
  /** Instead of `routerBaseUrl`: a copy that is shared. */
  readonly catalogue?: ModelCatalogue;
}

const modelId = /^[A-Za-z0-9._/@:-]+$/;

/**
 * May this model be used? It may when the allow-list names it, or when the catalogue lists it as `id` or `provider/id`.
 * A catalogue that cannot be asked allows nothing. Never throws.
 */
export async function validateChatModelId(id: unknown, rules: ModelRules = {}): Promise<ModelVerdict> {
  const model = typeof id === 'string' ? id.trim() : '';
  if (model === '') return refused('malformed', 'the model must be a name that is not blank');
  if (model.length > maxModelIdChars)
    return refused('malformed', `the name of the model is longer than ${maxModelIdChars} characters`);
  if (!modelId.test(model))
    return refused('malformed', 'the name of the model may only have letters, digits and . _ / @ : -');
  if (rules.allowlist?.includes(model)) return { ok: true, model };
  const { catalogue, routerBaseUrl } = rules;
  if (!catalogue && routerBaseUrl === undefined)
    return refused('not_listed', `the model ${model} is not among the allowed models`);
  try {
    const listed = await (catalogue ? catalogue.models() : getModels(routerBaseUrl ?? ''));
    const found = listed.some(({ id: one, provider }) => model === one || (provider && model === `${provider}/${one}`));
    if (found) return { ok: true, model };
    return refused('not_listed', `the model ${model} is neither among the allowed models nor in the catalogue`);
  } catch {
    const message = `the model ${model} is not among the allowed models, and the catalogue cannot be asked for it now`;
    return refused('catalogue_unreachable', message);
  }
}

function refused(reason: Extract<ModelVerdict, { ok: false }>['reason'], message: string): ModelVerdict {
  return { ok: false, reason, message, retryable: reason === 'catalogue_unreachable' };
}

/** The base of a router without `/` and `/v1` at its end: both spellings of its address lead to the same paths. */
export function resolveRouterBaseUrl(url: string): string {
  let base = url.trim();
  while (base.endsWith('/')) base = base.slice(0, -1);
  if (base.endsWith('/v1')) base = base.slice(0, -'/v1'.length);
  while (base.endsWith('/')) base = base.slice(0, -1);
  return base;
}

export interface GetModelsOptions {
  readonly fetch?: typeof fetch;
  /** For the whole answer. Default 5,000. */
  readonly timeoutMs?: number;
}

const catalogueAnswer = z.object({
  data: z.array(z.object({ id: z.string().min(1), provider: z.string().nullish(), owned_by: z.string().nullish() })),
});

/**
 * The models of a router: `GET <base>/v1/models`. Throws `provider_unavailable` for every status but 2xx, a redirect
 * included, for an answer that is no list of models or larger than 4 MiB, and when it is not there in time.
 */
export async function getModels(
  base: string,
  { fetch: send = fetch, timeoutMs = defaultTimeoutMs }: GetModelsOptions = {},
): Promise<readonly CatalogueModel[]> {
  const url = `${resolveRouterBaseUrl(base)}/v1/models`;
  try {
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await send(url, { headers: { accept: 'application/json' }, redirect: 'manual', signal });
    if (!response.ok) {
      await response.body?.cancel();
      throw new RunError('provider_unavailable', `the model catalogue answered ${response.status}`);
    }
    const { data } = catalogueAnswer.parse(JSON.parse(await boundedText(response)));
    return data.map(({ id, provider, owned_by: owner }) => {
      const whose = provider ?? owner;
      return whose ? { id, provider: whose } : { id };
    });
  } catch (cause) {
    if (cause instanceof RunError) throw cause;
    throw new RunError('provider_unavailable', 'the model catalogue cannot be read', { cause });
  }
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop cancels the body.
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > maxCatalogueBytes)
      throw new RunError('provider_unavailable', 'the model catalogue is larger than 4 MiB');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

export interface ModelCatalogueOptions extends GetModelsOptions {
  /** Address of the router, with or without `/v1`. */
  readonly base: string;
  /** How long a copy counts as fresh. */
  readonly ttlMs: number;
  /** Milliseconds that never run backwards. */
  readonly now?: () => number;
}

/**
 * A catalogue that keeps a copy: one that is younger than `ttlMs` answers by itself, an older one never does. However
 * many ask at once, one request is under way; a failure reaches all callers that waited for it and is not kept.
 */
export function createModelCatalogue({
  base,
  ttlMs,
  now = () => performance.now(),
  ...options
}: ModelCatalogueOptions): ModelCatalogue {
  let copy: { readonly models: readonly CatalogueModel[]; readonly atMs: number } | undefined;
  let pending: Promise<readonly CatalogueModel[]> | undefined;
  const ask = async () => {
    // The age counts from the request: a slow answer may describe what was then.
    const atMs = now();
    const models = await getModels(base, options);
    copy = { models, atMs };
    return models;
  };
  return {
    async models() {
      if (copy && now() - copy.atMs < ttlMs) return copy.models;
      pending ??= ask().finally(() => (pending = undefined));
      return await pending;
    },
  };
}
