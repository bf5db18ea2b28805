import { systemClock } from '../shared/base/clock.ts';
import { RunError } from '../shared/base/errors.ts';
import { silentLog } from '../shared/base/log.ts';
import { Redactor } from '../shared/base/redact.ts';
import { parseConfig } from '../shared/contract/config.ts';
import type { Agent } from '../worker/agents/define-agent.ts';
import { loadAgents } from '../worker/agents/load-agents.ts';
import type { LoadedAgent } from '../worker/agents/loaded-agent.ts';
import { createToolSecrets } from '../worker/agents/tool-secrets.ts';
import { createToolkit } from '../worker/agents/toolkit.ts';
import type { CreateAgentOptions } from '../worker/local/agent-handle.ts';
import type { CapabilityResolver } from '../worker/tools/capabilities.ts';

/** An agent of a folder, with all that the folder has for it. */
export interface FolderAgent extends Required<Pick<CreateAgentOptions, 'agents' | 'capabilities' | 'loadTask'>> {
  readonly agent: Agent;
}

/**
 * Loads an agent of a folder as a worker does, YAML or TypeScript, with the tools, skills, capabilities, tasks and other agents
 * that are there. `env` has the settings that loading depends on, such as `MILLRACE_FILES`. Throws `agent_manifest_invalid` with
 * every problem of the folder, and `validation` for an agent that is not there.
 *
 * @example
 * const agent = testAgent(await agentFrom('agents', 'support'), { model: ['Hello.'] });
 */
export async function agentFrom(
  folder: string,
  id: string,
  env: Readonly<Record<string, string | undefined>> = {},
): Promise<FolderAgent> {
  return await chosenFrom(folder, env, (agents) => {
    const agent = agents.get(id);
    if (agent) return agent;
    const known = [...agents.keys()].join(', ');
    throw new RunError('validation', `there is no agent ${id} in ${folder}; known are ${known}`);
  });
}

/** The same for the agent of this file of the folder, whatever its id. */
export async function agentFromFile(
  folder: string,
  file: string,
  env: Readonly<Record<string, string | undefined>> = {},
): Promise<FolderAgent> {
  return await chosenFrom(folder, env, (agents) => {
    const agent = [...agents.values()].find((one) => one.file === file);
    if (agent) return agent;
    const known = [...agents.values()].map((one) => one.file).join(', ');
    throw new RunError('validation', `there is no agent file ${file} in ${folder}; there are ${known || 'none'}`);
  });
}

async function chosenFrom(
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
  choose: (agents: ReadonlyMap<string, LoadedAgent>) => LoadedAgent,
): Promise<FolderAgent> {
  const config = parseConfig(env);
  const capabilities: Record<string, CapabilityResolver> = {};
  const secrets = createToolSecrets({ env });
  const parts = { config, secrets, redactor: new Redactor(), log: silentLog, clock: systemClock };
  await using toolkit = createToolkit(parts);
  const offer: typeof toolkit.offer = {
    ...toolkit.offer,
    register(name, resolver) {
      toolkit.offer.register(name, resolver);
      capabilities[name] = resolver;
    },
  };
  const { agents, tasks, problems } = await loadAgents(folder, offer);
  if (problems.length > 0)
    throw new RunError('agent_manifest_invalid', `folder ${folder}:\n  ${problems.join('\n  ')}`, {
      details: problems,
    });
  // Built-in tools belong to the worker that runs them: those of the test are made with the test.
  const isBuiltin = new Set(offer.names);
  const fromFolder = (agent: LoadedAgent): LoadedAgent => ({
    ...agent,
    tools: agent.tools.filter(({ name, ofPackage }) => !(ofPackage && isBuiltin.has(name))),
  });
  const agent = choose(agents);
  return {
    agent: fromFolder(agent),
    agents: [...agents.values()].filter((other) => other !== agent).map(fromFolder),
    capabilities,
    loadTask: (taskId) => tasks.get(taskId),
  };
}
