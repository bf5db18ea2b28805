import { defined } from '../../shared/base/collections.ts';
import { problemsOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import { agentDefinition, type AgentDefinition, type AgentInput } from '../../shared/contract/agent/agent.ts';
import { canonicalAgent, type AgentSpellings } from './agent-spellings.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { deepFreeze } from '../../shared/base/json-value.ts';
import { mentionsSecrets } from '../../shared/base/template-syntax.ts';
import type { PromptBuilder } from '../prompt/system-prompt.ts';
import type { ResultReader } from '../tools/source.ts';
import type { Tool } from '../tools/tool.ts';
import type { LlmProvider } from '../llm/provider.ts';
import type { HandoffFilterDescriptor } from '../../shared/contract/handoff/handoff.ts';
import type { HandoffFilter } from '../../shared/contract/handoff/handoff-filters.ts';
import type { ModelCallVerdict } from '../turn/turn-ports.ts';
import type { PostCompactionHook } from '../turn/compaction/policy.ts';
import type { PrepareStep } from '../turn/prepare-step.ts';
import { invalidManifest, madeWith } from './define-judge.ts';
import { createAgentTool, type AgentToolOptions } from './agent-tool.ts';
import { fallbacksOf, type FallbackModel } from './own-providers.ts';
import { schemaProblem } from '../turn/output.ts';

/** A definition with the tools that its author passed as objects. Immutable. */
export interface Agent {
  readonly definition: AgentDefinition;
  /** Tools given as objects. Names in `definition.tools` beyond these are looked up among the folder's tool modules. */
  readonly tools: readonly Tool[];
  /** Makes the prompt, in place of the instructions. */
  readonly prompt?: PromptBuilder;
  readonly llmPolicy?: LlmPolicy;
  readonly prepareStep?: PrepareStep;
  /** Asked after each compaction, with `compaction`. */
  readonly postCompactionHooks?: readonly PostCompactionHook[];
  /** Read what handles of its tools' results name, after the readers of this system. */
  readonly resultReaders?: readonly ResultReader[];
  /** By agent: filters given as objects, which may be functions of the author's own. */
  readonly handoffFilters?: ReadonlyMap<string, HandoffFilter>;
  /** Those that its author gave as objects among its fallback models, by id. */
  readonly providers?: ReadonlyMap<string, LlmProvider>;
}

/**
 * Asked before the model call of each step. `deny` keeps it from being made: the run fails with `policy_denied`, or ends
 * as `degraded` with the reason as its text, as the agent's `llmFailure` says. Must be quick; a throw is `internal`.
 */
export type LlmPolicy = (call: {
  readonly runId: string;
  readonly tenant: string;
  readonly agentId: string;
  readonly stepNumber: number;
  readonly spentMicrocents: number;
}) => ModelCallVerdict | Promise<ModelCallVerdict>;

/** An agent as `defineAgent` answers it. */
export interface DefinedAgent extends Agent {
  /**
   * This agent as a tool of another one: each call is a run of its own, which sees the input and nothing else unless a filter
   * lets more through. What it costs counts in the run that calls. Throws `validation`.
   *
   * @example
   * defineAgent({ id: 'reception', model: 'gpt-5.2-mini', tools: [billing.toTool({ description: 'Knows all invoices.' })] })
   */
  toTool(options?: AgentToolOptions): Tool;
}

const brand = Symbol.for('millrace.agent');

/** The fields of an agent file; `tools` takes tool objects beside names. */
export type AgentSource = Omit<
  AgentInput,
  'tools' | 'id' | 'outputSchema' | 'handoffs' | 'instructions' | 'fallbackModels'
> &
  Pick<Agent, 'llmPolicy' | 'prepareStep' | 'postCompactionHooks' | 'resultReaders'> &
  AgentSpellings & {
    readonly id: string;
    readonly tools?: readonly (Tool | string)[];
    readonly fallbackModels?: readonly FallbackModel[];
    /** The prompt, or what makes it for each run. See `PromptBuilder`. */
    readonly instructions?: string | PromptBuilder;
    /** JSON Schema, or a zod schema, which becomes one: transforms and refinements do not take part. */
    readonly outputSchema?: z.ZodType | Readonly<Record<string, unknown>>;
    /** Agents that may take over. A filter may be one of `filters`, or its descriptor. */
    readonly handoffs?: readonly (
      | string
      | {
          readonly agent: string;
          readonly filter?: HandoffFilter | HandoffFilterDescriptor;
          readonly description?: string;
        }
    )[];
  };

/**
 * Declares an agent. Checks everything at once and throws `agent_manifest_invalid` whose message and details list every
 * problem; unknown fields are problems too. The result is frozen.
 *
 * @example
 * export default defineAgent({ id: 'support', model: 'gpt-5.2-mini', instructions: '…', tools: [lookupOrder] })
 */
export function defineAgent({
  llmPolicy,
  prepareStep,
  postCompactionHooks,
  resultReaders,
  ...given
}: AgentSource): DefinedAgent {
  const { source, problems: misspelt, spelledAs } = canonicalAgent(given);
  const { instructions } = given;
  const prompt = typeof instructions === 'function' ? instructions : undefined;
  if (prompt) delete source['instructions'];
  const asked = given.tools ?? [];
  const tools = asked.filter((tool): tool is Tool => typeof tool === 'object' && tool !== null);
  const names = asked.map((tool) => (typeof tool === 'string' ? tool : tool.name));
  const problems = new Set(names).size < names.length ? ['tools: a tool is named twice'] : [];
  problems.push(...misspelt);
  if ('surfaces' in given) problems.push('surfaces: belong to a manifest; declare it with defineAgentManifest');
  for (const [name, value] of Object.entries({ llmPolicy, prepareStep })) {
    if (value !== undefined && typeof value !== 'function') problems.push(`${name}: must be a function`);
  }
  const handoffs = handoffsOf(given.handoffs);
  for (const [name, values] of Object.entries({ resultReaders, postCompactionHooks })) {
    if (values?.some((value) => typeof value !== 'function')) problems.push(`${name}: must be functions`);
  }
  const fallbacks = fallbacksOf(source['fallbackModels'], given.model);
  problems.push(...fallbacks.problems);
  const output = outputSchemaOf(given.outputSchema);
  if (output.problem !== undefined) problems.push(`outputSchema: ${output.problem}`);
  const parsed = agentDefinition.safeParse({
    ...source,
    ...(given.handoffs && { handoffs: handoffs.rules }),
    fallbackModels: fallbacks.entries,
    outputSchema: output.schema,
    tools: names,
  });
  problems.push(...problemsOf(parsed.error, 'agent', spelledAs, agentDefinition));
  if (parsed.success && mentionsSecrets(parsed.data.instructions))
    problems.push(`${spelledAs('instructions')}: must not refer to {{ secrets.* }}`);
  if (!parsed.success || problems.length > 0) throw invalidManifest('agent', given.id, problems);
  const agent: Agent = {
    definition: deepFreeze(parsed.data),
    tools: Object.freeze(tools),
    ...defined({
      prompt,
      llmPolicy,
      prepareStep,
      postCompactionHooks,
      resultReaders,
      handoffFilters: handoffs.filters.size > 0 ? handoffs.filters : undefined,
      providers: fallbacks.providers.size > 0 ? fallbacks.providers : undefined,
    }),
  };
  Object.defineProperty(agent, brand, { value: true });
  const toTool = (options: AgentToolOptions = {}) => createAgentTool(agent.definition, options, agent);
  return Object.freeze(Object.defineProperty(agent, 'toTool', { value: toTool }) as DefinedAgent);
}

/** The rules as data, and the filters that are more than that. */
function handoffsOf(given: AgentSource['handoffs'] = []) {
  const own = new Map<string, HandoffFilter>();
  const rules = given.map((rule) => {
    if (typeof rule === 'string' || !rule.filter || !('apply' in rule.filter)) return rule;
    own.set(rule.agent, rule.filter);
    return { ...rule, filter: rule.filter.descriptor };
  });
  return { rules, filters: own };
}

/** Was this value made by `defineAgent`, also by another copy of this package? */
export const isAgent = madeWith<Agent>(brand);

/** The output schema of an agent as JSON Schema, or what is wrong with it. Anything that is no schema stays as it is. */
function outputSchemaOf(given: unknown): { readonly schema?: unknown; readonly problem?: string } {
  if (given === null || typeof given !== 'object') return { schema: given };
  try {
    // Also made by another copy of zod. The dialect is always the same one: a schema that names another would not be found.
    const found: object = '_zod' in given ? z.toJSONSchema(given as z.ZodType) : given;
    const { $schema: _, ...schema } = found as Record<string, unknown>;
    const problem = schemaProblem(schema);
    return problem === undefined ? { schema } : { schema, problem: `cannot be used: ${problem}` };
  } catch (error) {
    return { problem: `has no JSON Schema (${messageOf(error)})` };
  }
}
