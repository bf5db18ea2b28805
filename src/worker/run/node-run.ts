import { asRunError, RunError } from '../../shared/base/errors.ts';
import type { InputFile } from '../../shared/contract/input-parts.ts';
import type { NodeConfig } from '../../shared/contract/node.ts';
import { workOf, type RunRequest } from '../../shared/contract/run.ts';
import { renderTemplate, type TemplateData } from '../../shared/base/template.ts';
import { effectiveRetry } from './limits.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';

/** The agent as this run uses it and its first user message, or why the run cannot be run. */
export interface Assignment {
  readonly agent: LoadedAgent | undefined;
  readonly prompt: string;
  /** The files of the input, where more is known of them than the record says. */
  readonly files?: InputFile[] | undefined;
  /** Tools of the agent that this run must not call. */
  readonly deniedTools?: readonly string[] | undefined;
  /** What the node or the caller adds to the prompt of the agent, literally: only the user message of a node is a template. */
  readonly append?: string | undefined;
  /** Why the run cannot be run, when that is known already. */
  readonly refusal?: RunError | undefined;
}

/** What the request asks for, by the agents of this worker. A pure function of the request: the same on every worker. */
export async function assignmentOf(
  request: RunRequest,
  agents: ReadonlyMap<string, LoadedAgent>,
  signal: AbortSignal,
): Promise<Assignment> {
  const { input } = request;
  const agent = agents.get(request.agent);
  const work = workOf(request);
  if (work.kind !== 'node')
    return { agent: agent && forAnswer(agent, request), prompt: input, append: request.instructions };
  const { node } = work;
  try {
    const assigned = agentOfNode(agent, { ...node, agent_ref: request.agent, raise: request.raise });
    const prompt = await renderTemplate(node.prompt_template, { ...dataOf(node), input }, {}, signal);
    return { ...assigned, prompt };
  } catch (error) {
    return { agent, prompt: '', refusal: asRunError(error) };
  }
}

/** The agent with the answer that this request asks for. */
function forAnswer(agent: LoadedAgent, { outputSchema }: RunRequest): LoadedAgent {
  if (!outputSchema) return agent;
  // A schema that came with a request may hold patterns that never end.
  return { ...agent, definition: { ...agent.definition, outputSchema, outputValidation: 'parse' } };
}

/**
 * The agent as a node uses it: its own model, no more retries than the agent's, its tools, output schema and what it adds to the prompt. Throws `validation`
 * where there is no agent, or a tool that it does not have; `internal` for a node that is no agent.
 */
export function agentOfNode(
  agent: LoadedAgent | undefined,
  node: Omit<NodeConfig, 'id'> & Pick<RunRequest, 'raise'>,
): Required<Pick<Assignment, 'deniedTools'>> & Pick<Assignment, 'append'> & { readonly agent: LoadedAgent } {
  const { type, agent_ref: ref, model, provider, tools: names, system_prompt_append: append } = node;
  if (type !== 'agent')
    throw new RunError('internal', `nodes of type ${type} cannot be run here, only those of type agent`);
  if (!agent) throw new RunError('validation', `there is no agent ${ref}, which the node refers to`);
  const { definition, tools } = agent;
  const granted = names ?? definition.tools;
  const wider = granted.filter((name) => !definition.tools.includes(name));
  if (wider.length > 0)
    throw new RunError('validation', `the node grants tools that agent ${ref} does not have: ${wider.join(', ')}`);
  const { output_schema: schema } = node;
  return {
    agent: {
      ...agent,
      tools: tools.filter((tool) => granted.includes(tool.name)),
      definition: {
        ...definition,
        tools: [...granted],
        model: model ?? definition.model,
        provider: provider ?? definition.provider,
        retry: effectiveRetry(definition, node),
        toolFailure: definition.toolFailure ?? 'fail',
        subagentFailure: definition.subagentFailure ?? 'fail',
        outputSchema: schema ?? definition.outputSchema,
        // A schema that came with a request may hold patterns that never end.
        outputValidation: schema ? 'parse' : (definition.outputValidation ?? 'parse'),
      },
    },
    deniedTools: definition.tools.filter((name) => !granted.includes(name)),
    append,
  };
}

/** What templates refer to as `inputs.*` and `run.outputs.*`. */
export function dataOf({ inputs = {}, outputs = {} }: { inputs?: unknown; outputs?: unknown }): TemplateData {
  return { inputs, run: { outputs } };
}
