import type { ModelHint, ModelTier } from '../../shared/contract/agent/agent.ts';
import type { ModelName } from '../llm/candidate.ts';
import { defined } from '../../shared/base/collections.ts';
import type { StepPlan } from './prepare-step.ts';

/** What an agent and its tools wish for, with the tiers already resolved. */
export interface ModelPreferences {
  /** The tiers that the agent maps. */
  readonly tiers: Readonly<Partial<Record<ModelTier, ModelName>>>;
  readonly agent?: ModelHint | undefined;
  /** By tool name. */
  readonly tools: ReadonlyMap<string, ModelHint>;
}

/** The model that a turn begins with, when nothing else is wished for. */
interface DefaultModel {
  readonly model: string;
  /** `override`: the request names it. `node`: the node does. Anything else gives way to the agent's preference. */
  readonly modelSource: string;
}

export interface ModelChoice {
  readonly model: string;
  readonly source: string;
  /** Which wish could not be met, and why. */
  readonly reason?: string;
  /** For the chain; absent: its own plan. */
  readonly primary?: { readonly model: string; readonly provider?: string };
  /** Nothing but `primary`. */
  readonly only: boolean;
}

export const noPreferences: ModelPreferences = { tiers: {}, tools: new Map() };

const strength: readonly ModelTier[] = ['smart', 'balanced', 'fast'];

/**
 * The model of one step: what the program decided for it, else the request's, else the strongest wish of the tools that
 * the step before called (one model of a provider, then smart, balanced, fast), else the node's, else the agent's
 * preference, else the default. A tier that is not mapped is skipped.
 */
export function chooseModel(
  base: DefaultModel,
  preferences: ModelPreferences,
  called: readonly string[],
  forced: Pick<StepPlan, 'model' | 'provider'> = {},
): ModelChoice {
  const { model = base.model, provider } = forced;
  if (forced.model !== undefined || provider !== undefined)
    return { model, source: 'prepare-step', primary: defined({ model, provider }), only: true };
  const unchanged = { model: base.model, source: base.modelSource, only: false };
  if (base.modelSource === 'override') return unchanged;
  const missing: ModelTier[] = [];
  for (const { hint, source } of wishesOf(base, preferences, called)) {
    const found = typeof hint === 'string' ? preferences.tiers[hint] : hint;
    if (found) return { model: found.model, source, primary: found, only: false, ...reasonFrom(missing) };
    if (typeof hint === 'string') missing.push(hint);
  }
  return { ...unchanged, ...reasonFrom(missing) };
}

function wishesOf(base: DefaultModel, { agent, tools }: ModelPreferences, called: readonly string[]) {
  const hints = called.map((name) => tools.get(name));
  const specs = hints.filter((hint) => typeof hint === 'object');
  const tiers = strength.filter((tier) => hints.includes(tier));
  return [
    ...specs.map((hint) => ({ hint, source: 'spec' })),
    ...tiers.map((hint) => ({ hint, source: 'tier-map' })),
    ...(agent !== undefined && base.modelSource !== 'node' ? [{ hint: agent, source: 'agent-preferred' }] : []),
  ];
}

function reasonFrom(missing: readonly ModelTier[]): Pick<ModelChoice, 'reason'> {
  return missing.length === 0 ? {} : { reason: `no model is mapped to the tier ${[...new Set(missing)].join(', ')}` };
}
