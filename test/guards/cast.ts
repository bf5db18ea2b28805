import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { FlowMode } from '../../src/shared/contract/flow.ts';
import { handoffToolName } from '../../src/worker/tools/builtin/agents.ts';
import { defineAgent, defineTool, type Agent, type Tool } from '../../src/worker/index.ts';
import { stepsOf } from './scenario.ts';
import type { Playable, ScenarioAgent, ScenarioCall, ScenarioStep, ScenarioTool } from './scenario.ts';

/** What happens while a scenario is played. `child`: all of it happens in a child of another agent. */
export const variants = ['plain', 'resume', 'kill', 'child'] as const;
export type Variant = (typeof variants)[number];

/** A call of a scenario's tool: where it was made is part of what a recorder writes down. */
export interface Played {
  readonly scenario: string;
  readonly agent: string;
  readonly tool: string;
  readonly args: unknown;
}

/** How scenarios are played. */
export interface Performance {
  readonly mode: FlowMode;
  readonly variant: Variant;
}

export interface CastOptions extends Performance {
  /** Writes a call down before it answers. */
  readonly record: (played: Played) => void;
  /** Resolves once a run may go on behind its checkpoint. */
  readonly passed: (runId: string, signal: AbortSignal) => Promise<void>;
  /** Where the servers of `via: mcp` are. */
  readonly serversUrl: string;
}

export const checkpoint = 'checkpoint';
const asking = 'asks';

export function agentIdOf(scenario: string, agent: string): string {
  return `${scenario}.${agent}`;
}

/** The agent that gets the user's message. */
export function entryOf({ id, agents }: Playable, variant: Variant): string {
  return agentIdOf(id, variant === 'child' ? asking : (agents[0]?.id as string));
}

/** A played part of a scenario: an agent with what its model says, step by step, in each turn. */
export interface Part {
  readonly id: string;
  readonly turns: readonly PartTurn[];
  /** How many steps of the run are over when it takes over. */
  readonly offset: number;
}

interface PartTurn {
  readonly user: string;
  readonly steps: readonly PartStep[];
}

/** One answer of the model: calls, or its last words. `listed`: the calls of the scenario that are made by it. */
export type PartStep =
  | {
      readonly calls: readonly { name: string; args: unknown }[];
      readonly listed: readonly ScenarioCall[];
      /** The model answers once the run may go on behind its checkpoint. */
      readonly held?: boolean;
    }
  | { readonly text: string };

/** What every model of a scenario says. */
export function partsOf(scenario: Playable, { mode, variant }: Performance): readonly Part[] {
  const { id, user, agents, turns } = scenario;
  const offsets = handoffOffsets(scenario, variant);
  const parts = agents.map((agent, at): Part => {
    const own = { user, steps: agent.steps, answer: agent.answer };
    const spoken = (at === 0 ? [own, ...turns] : [own]).map((turn) => {
      const steps = withCheckpoint(turn.steps, agent, variant);
      const answers = steps.flatMap((step) => [answerOf(step, id), ...(mode === 'confirm' ? againByHand(step) : [])]);
      return { user: turn.user, steps: [...answers, { text: turn.answer }] };
    });
    return { id: agentIdOf(id, agent.id), turns: spoken, offset: offsets.get(agent.id) ?? 0 };
  });
  if (variant !== 'child') return parts;
  const question = { agent: agentIdOf(id, agents[0]?.id as string), message: user };
  const steps = [{ calls: [{ name: 'ask_agent', args: question }], listed: [] }, { text: 'Asked.' }];
  return [...parts, { id: agentIdOf(id, asking), turns: [{ user, steps }], offset: 0 }];
}

type Step = ScenarioStep | typeof checkpoint | { readonly held: ScenarioStep };

/** The run stops before the first call that takes effect: for a person, in a call of its script, or while the model answers. */
function withCheckpoint(
  steps: readonly ScenarioStep[],
  { tools }: Pick<ScenarioAgent, 'tools'>,
  variant: Variant,
): readonly Step[] {
  if (variant !== 'resume' && variant !== 'kill') return steps;
  const acts = (step: ScenarioStep) =>
    'calls' in step && step.calls.some(({ tool }) => tools.find(({ name }) => name === tool)?.effect !== 'read');
  const at = steps.findIndex(acts);
  if (at === -1) return steps;
  const step = steps[at] as ScenarioStep;
  if (variant === 'resume') return [...steps.slice(0, at), checkpoint, ...steps.slice(at)];
  if ('script' in step && middle.test(step.script)) {
    const script = step.script.replace(middle, `await tools.${checkpoint}({});`);
    return steps.with(at, { ...step, script });
  }
  return [...steps.slice(0, at), { held: step }, ...steps.slice(at + 1)];
}

const middle = /\/\* middle \*\//;

/** No script can ask a person: what it is refused for that reason, an obedient model calls by itself. */
function againByHand(step: Step): PartStep[] {
  if (typeof step === 'string') return [];
  if ('held' in step) return againByHand(step.held);
  const attacks = 'script' in step ? step.calls.filter(({ label }) => label === 'attack') : [];
  return attacks.length === 0 ? [] : [answerOf({ calls: attacks }, '')];
}

function answerOf(step: Step, scenario: string): PartStep {
  const making = (name: string, args: unknown) => ({ calls: [{ name, args }], listed: [] });
  if (typeof step === 'string') return making(checkpoint, {});
  if ('held' in step) return { ...answerOf(step.held, scenario), held: true };
  if ('script' in step) return { ...making('code_execute', { source: step.script }), listed: step.calls };
  if ('calls' in step) return { calls: step.calls.map(({ tool, args }) => ({ name: tool, args })), listed: step.calls };
  if ('ask' in step) return making('ask_agent', { agent: agentIdOf(scenario, step.ask), message: step.message });
  return making(handoffToolName(agentIdOf(scenario, step.handoff)), {});
}

/** An agent that takes over counts its steps from there. */
function handoffOffsets({ agents }: Playable, variant: Variant): ReadonlyMap<string, number> {
  const offsets = new Map<string, number>();
  for (const agent of agents) {
    const steps = withCheckpoint(agent.steps, agent, variant);
    for (const [at, step] of steps.entries())
      if (typeof step === 'object' && 'handoff' in step)
        offsets.set(step.handoff, (offsets.get(agent.id) ?? 0) + at + 1);
  }
  return offsets;
}

/** The agents of a scenario, with tools that answer what it says. */
export function agentsOf(scenario: Playable, options: CastOptions): readonly Agent[] {
  const { id, agents } = scenario;
  const cast = agents.map((agent): Agent => {
    const steps = stepsOf(scenario, agent);
    const calls = steps.flatMap((step) => ('calls' in step ? step.calls : []));
    const direct = agent.tools.filter(({ via }) => via === 'direct');
    const servers = agent.tools.filter(({ via }) => via === 'mcp');
    const stops = options.variant === 'resume' || options.variant === 'kill';
    const place = { scenario: id, agent: agent.id };
    const asked = steps.flatMap((step) => ('ask' in step ? [agentIdOf(id, step.ask)] : []));
    return defineAgent({
      id: agentIdOf(id, agent.id),
      model: agentIdOf(id, agent.id),
      instructions: agent.instructions ?? '',
      description: `Plays ${agent.id}.`,
      sensitivity: agent.sensitivity,
      toolInvocation: agent.invocation,
      tools: [
        ...direct.map((tool) => toolOf(tool, calls, { ...options, ...place })),
        ...(stops ? [checkpointTool(options)] : []),
        ...servers.map((tool) => `mcp:${tool.server}/${tool.name}`),
      ],
      mcpServers: Object.fromEntries(
        servers.map(({ server = '' }) => [server, { url: `${options.serversUrl}/${id}/${agent.id}/${server}` }]),
      ),
      toolOptions: Object.fromEntries(servers.map((tool) => [`mcp:${tool.server}/${tool.name}`, optionsOf(tool)])),
      subagents: [...new Set(asked)],
      handoffs: [...new Set(steps.flatMap((step) => ('handoff' in step ? [agentIdOf(id, step.handoff)] : [])))],
      dataFlowPolicy: { ...agent.policy, mode: options.mode },
    });
  });
  if (options.variant !== 'child') return cast;
  return [...cast, askingAgent(scenario, options)];
}

function askingAgent({ id, agents: [first] }: Playable, { mode }: CastOptions): Agent {
  const name = agentIdOf(id, asking);
  return defineAgent({
    id: name,
    model: name,
    instructions: 'You ask others.',
    subagents: [agentIdOf(id, first?.id as string)],
    dataFlowPolicy: { mode },
  });
}

// What a sanitiser finds, no model reads. An obedient model is to read everything: what is stopped then is stopped by the policy.
const inboundSanitization = 'flag';

function optionsOf({ effect, sensitivity, trust }: ScenarioTool) {
  return { effect, sensitivity, inboundSanitization, trust: trust === 'built-in' ? undefined : trust } as const;
}

function toolOf(
  tool: ScenarioTool,
  calls: readonly ScenarioCall[],
  { scenario, agent, record }: CastOptions & Pick<Played, 'scenario' | 'agent'>,
): Tool {
  const { name, effect, sensitivity, trust = 'user-defined' } = tool;
  return defineTool({
    name,
    description: tool.description ?? `Does ${name}.`,
    inputSchema: schemaOf(tool),
    effect,
    sensitivity,
    trust,
    inboundSanitization,
    execute: (args) => {
      record({ scenario, agent, tool: name, args });
      return resultOf(calls, name, args);
    },
  });
}

/** As the schema has it; a tool's own defaults would change what is compared. */
function schemaOf({ parameters }: ScenarioTool): z.ZodType {
  return z.fromJSONSchema(parameters);
}

/** What the scenario says that this call answers. Throws for a call that it does not have. */
export function resultOf(calls: readonly ScenarioCall[], name: string, args: unknown): unknown {
  const call = calls.find((one) => one.tool === name && isDeepStrictEqual(one.args, args));
  if (!call) throw new Error(`the scenario has no call of ${name} with these arguments`);
  return call.result;
}

function checkpointTool({ variant, passed }: CastOptions): Tool {
  return defineTool({
    name: checkpoint,
    description: 'Stops here.',
    inputSchema: z.object({}),
    effect: 'read',
    needsApproval: variant === 'resume',
    execute: async (_args, { runId, signal }) => {
      if (variant === 'kill') await passed(runId, signal);
      return 'passed';
    },
  });
}
