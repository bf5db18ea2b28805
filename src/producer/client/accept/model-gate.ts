import { defined } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { createModelCatalogue, validateChatModelId, type ModelRules } from '../../../shared/contract/agent/models.ts';
import type { RunRequest } from '../../../shared/contract/run.ts';
import type { MillraceOptions } from '../options.ts';

const catalogueTtlMs = 60_000;
/** A caller waits for it. */
const catalogueTimeoutMs = 3_000;

/** In an allow-list: any model. */
const anyModel = '*';
const maxNamed = 50;

/**
 * Decides which models a request may name, in `overrides.model` or for its node: those of the allow-list and the router, or
 * without both those that announced agents use.
 */
export class ModelGate {
  readonly #rules: ModelRules;
  readonly #ofAgents: (() => Promise<readonly string[]>) | undefined;
  readonly #isOpen: boolean;

  constructor(
    {
      modelAllowlist: allowlist = [],
      modelRouterUrl: base,
    }: Pick<MillraceOptions, 'modelAllowlist' | 'modelRouterUrl'>,
    ofAgents: () => Promise<readonly string[]>,
  ) {
    this.#isOpen = allowlist.includes(anyModel);
    if (allowlist.length === 0 && base === undefined) this.#ofAgents = ofAgents;
    const catalogue =
      base === undefined
        ? undefined
        : createModelCatalogue({ base, ttlMs: catalogueTtlMs, timeoutMs: catalogueTimeoutMs });
    this.#rules = defined({ allowlist, catalogue });
  }

  /** Does this request name a model, and does that have to be looked up? */
  concerns({ overrides, node }: RunRequest): boolean {
    return !this.#isOpen && (overrides?.model ?? node?.model) !== undefined;
  }

  /**
   * The request, with the name of its model as it was found. Throws `model_not_allowed`, which is retryable while the
   * router cannot be asked.
   */
  async check(request: RunRequest): Promise<RunRequest> {
    const { overrides, node } = request;
    const ofRun = await this.#named(overrides?.model, 'overrides.model');
    const ofNode = await this.#named(node?.model, 'node.model');
    return {
      ...request,
      overrides: ofRun === undefined ? overrides : { ...overrides, model: ofRun },
      node: node && ofNode !== undefined ? { ...node, model: ofNode } : node,
    };
  }

  async #named(model: string | undefined, path: string): Promise<string | undefined> {
    if (this.#isOpen || model === undefined) return model;
    const rules = this.#ofAgents ? { allowlist: await this.#ofAgents() } : this.#rules;
    const verdict = await validateChatModelId(model, rules);
    if (verdict.ok) return verdict.model;
    const { retryable } = verdict;
    const allowed = (rules.allowlist ?? []).slice(0, maxNamed);
    const message = `${verdict.message}; allowed are ${allowed.join(', ') || 'none'}${this.#ofAgents ? ' (what agents use; an operator allows more with MODEL_ALLOWLIST)' : ''}`;
    throw new RunError('model_not_allowed', message, { retryable, details: [{ path, message, allowed }] });
  }
}
