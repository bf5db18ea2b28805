import { modelsOfAgent, type AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { RunError } from '../../shared/base/errors.ts';
import { otherName } from '../../shared/base/ids.ts';
import { workOf, type RunRequest } from '../../shared/contract/run.ts';
import type { Providers } from '../llm/backends/providers.ts';
import type { LoadedAgent } from './loaded-agent.ts';
import { servedTo } from './own-providers.ts';
import type { NamedFunctions } from './load-agents.ts';

/** The models that operators and authors of agents name, as they are written and as their providers are asked for them. */
export function configuredModels(agents: Iterable<LoadedAgent>, further: readonly string[], providers: Providers) {
  const names = new Set<string>();
  const add = (model: string, provider: string | undefined, of: Pick<Providers, 'providerFor'> = providers) => {
    names.add(model);
    const served = of.providerFor(model, provider);
    if (served) names.add(served.model);
  };
  for (const name of further) add(name, undefined);
  for (const agent of agents) {
    const { definition, tools } = agent;
    const own = servedTo(agent, providers);
    for (const { model, provider } of modelsOfAgent(definition)) add(model, provider, own);
    for (const { preferredModel } of tools)
      if (typeof preferredModel === 'object') add(preferredModel.model, preferredModel.provider, own);
  }
  for (const name of [...(providers.models ?? []), ...(providers.prices ?? []).map(({ model }) => model)])
    names.add(name);
  return [...names];
}

/** Why a run may not begin with this agent: it asks for another version of it. */
export function wrongVersion(
  { agent: id, agentVersion: wanted }: Pick<RunRequest, 'agent' | 'agentVersion'>,
  agent: Partial<Pick<AgentDefinition, 'version'>> | undefined,
): RunError | undefined {
  if (wanted === undefined || !agent || agent.version === wanted) return undefined;
  const has = agent.version === undefined ? 'no version' : `version ${agent.version}`;
  return new RunError(
    'validation',
    `agentVersion: the run asks for version ${wanted} of agent ${id}, which has ${has} here`,
  );
}

/** The error of a run whose agent this worker does not have. */
export function unknownAgent(id: string): RunError {
  return new RunError('validation', `this worker has no agent ${id}`);
}

interface Known {
  readonly agents: ReadonlyMap<string, unknown>;
  readonly functions?: Pick<NamedFunctions, 'adapters'> | undefined;
}

/** The agent that a run is counted for. A task may give any name as its agent. */
export function countedAgent(request: Pick<RunRequest, 'agent' | 'taskRun'>, { agents, functions }: Known): string {
  const { agent } = request;
  if (agents.has(agent) || functions?.adapters.has(agent)) return agent;
  const work = workOf(request);
  return work.kind === 'task' && functions?.adapters.has(work.task.adapter) ? work.task.adapter : otherName;
}
