import { isRecord } from '../../shared/base/json.ts';
import type { AgentInput } from '../../shared/contract/agent/agent.ts';
import type { FallbackModel } from './own-providers.ts';

type FallbackModels = readonly FallbackModel[];
type LooseLimits = NonNullable<AgentInput['limits']>;

/** Other ways to write fields of an agent. Each is read as one field; giving a field twice is a problem. */
export interface AgentSpellings {
  readonly fallback_chain?: FallbackModels;
  readonly fallbackModelChain?: FallbackModels;
  readonly fallback_model_chain?: FallbackModels;
  readonly policy?: { readonly fallbackModels?: FallbackModels };
  readonly failSafe?: FailSafe;
  readonly maxParallelTools?: number;
  readonly memory?: AgentInput['compaction'];
}

/** Policies and ceilings in one place. Times in seconds. */
export interface FailSafe extends Pick<
  LooseLimits,
  'maxSteps' | 'maxLlmCalls' | 'maxToolCalls' | 'maxParallelTools' | 'subagentFanoutPerStep'
> {
  readonly llmFailurePolicy?: string;
  readonly toolFailurePolicy?: string;
  readonly subagentFailurePolicy?: string;
  readonly approvalDenialPolicy?: string;
  readonly breakerFailureThreshold?: number;
  readonly breakerCooldownS?: number;
  readonly fallbackModelChain?: FallbackModels;
  readonly maxWallTimeS?: number;
  readonly maxTotalCostUsd?: number;
}

const toMs = (value: unknown) => (typeof value === 'number' ? Math.round(value * 1_000) : value);

/** Spelling, field, and what the value becomes. */
export const fieldSpellings: readonly (readonly [string, string, ((value: unknown) => unknown)?])[] = [
  ['fallback_chain', 'fallbackModels'],
  ['fallbackModelChain', 'fallbackModels'],
  ['fallback_model_chain', 'fallbackModels'],
  ['policy.fallbackModels', 'fallbackModels'],
  ['failSafe.fallbackModelChain', 'fallbackModels'],
  ['failSafe.llmFailurePolicy', 'llmFailure'],
  ['failSafe.toolFailurePolicy', 'toolFailure'],
  ['failSafe.subagentFailurePolicy', 'subagentFailure'],
  ['failSafe.approvalDenialPolicy', 'approvalDenial'],
  ['failSafe.breakerFailureThreshold', 'breaker.failureThreshold'],
  ['failSafe.breakerCooldownS', 'breaker.cooldownMs', toMs],
  ['failSafe.maxSteps', 'limits.maxSteps'],
  ['failSafe.maxLlmCalls', 'limits.maxLlmCalls'],
  ['failSafe.maxToolCalls', 'limits.maxToolCalls'],
  ['failSafe.maxParallelTools', 'limits.maxParallelTools'],
  ['failSafe.subagentFanoutPerStep', 'limits.subagentFanoutPerStep'],
  ['maxParallelTools', 'limits.maxParallelTools'],
  ['memory', 'compaction'],
  ['failSafe.maxWallTimeS', 'limits.wallTimeMs', toMs],
  ['failSafe.maxTotalCostUsd', 'budget.maxCostUsd'],
];
const groups = ['policy', 'failSafe'];

/** What was given, with every field under its own name. */
export function canonicalAgent(given: Readonly<Record<string, unknown>>) {
  const source: Record<string, unknown> = { ...given };
  const problems: string[] = [];
  const writtenAs = new Map<string, string>();
  for (const group of groups) if (isRecord(source[group])) source[group] = { ...source[group] };
  for (const [spelling, field, convert = (value: unknown) => value] of fieldSpellings) {
    const written = slotOf(source, spelling);
    const value = written.from?.[written.name];
    if (written.from) delete written.from[written.name];
    if (value === undefined) continue;
    const own = slotOf(source, field);
    const before = writtenAs.get(field) ?? (own.from?.[own.name] === undefined ? undefined : field);
    if (before !== undefined) problems.push(`${field}: is given as ${before} and as ${spelling}; give one of them`);
    else if (put(source, field, convert(value))) writtenAs.set(field, spelling);
  }
  for (const group of groups) {
    const rest = source[group];
    if (rest === undefined) continue;
    delete source[group];
    if (!isRecord(rest)) problems.push(`${group}: must hold named fields`);
    else for (const name of Object.keys(rest)) problems.push(`${group}.${name}: there is no such field`);
  }
  return {
    source,
    problems,
    /** How the author wrote the field with this name. */
    spelledAs(this: void, path: string) {
      for (const [field, spelling] of writtenAs) {
        if (path === field || path.startsWith(`${field}.`)) return spelling + path.slice(field.length);
      }
      return path;
    },
  };
}

/** The object that has the field of this path, of two names at most, where there is one; and the field's own name. */
function slotOf(source: Record<string, unknown>, path: string) {
  const dot = path.indexOf('.');
  const from = dot === -1 ? source : source[path.slice(0, dot)];
  return { from: isRecord(from) ? from : undefined, name: path.slice(dot + 1) };
}

/** False when what is there cannot hold the field: it is a problem by itself. */
function put(source: Record<string, unknown>, path: string, value: unknown): boolean {
  const [group, name] = path.split('.') as [string, string | undefined];
  if (name === undefined) source[group] = value;
  else {
    const found = source[group] ?? {};
    if (!isRecord(found)) return false;
    source[group] = { ...found, [name]: value };
  }
  return true;
}
