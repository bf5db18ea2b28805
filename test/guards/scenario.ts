import { z } from 'zod';
import { toolEffect } from '../../src/shared/contract/agent/agent.ts';
import { trustClass } from '../../src/shared/contract/agent/trust.ts';
import { dataFlowPolicy } from '../../src/shared/contract/flow.ts';
import { sensitivity } from '../../src/shared/contract/message.ts';

/** Newer files than this are refused: what they mean is not known here. */
export const formatVersion = 1;

export const domainName = z.enum(['mail', 'banking', 'travel', 'files', 'web', 'code', 'calendar', 'tickets']);
const version = z.literal(formatVersion);
const agentName = z.string().regex(/^[a-z][a-z0-9-]{0,15}$/, 'must be 1 to 16 of a-z 0-9 -, beginning with a letter');
const toolName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 of A-Z a-z 0-9 _ -');
const args = z.record(z.string(), z.json()).default({});

const tool = z
  .strictObject({
    name: toolName,
    description: z.string().min(1).optional(),
    /** JSON Schema of the arguments. */
    parameters: z.record(z.string(), z.json()).default({ type: 'object' }),
    effect: toolEffect.default('read'),
    /** Default: `user-defined`, of a server `mcp-derived`. */
    trust: trustClass.optional(),
    sensitivity: sensitivity.default('public'),
    via: z.enum(['direct', 'mcp']).default('direct'),
    /** Of `via: mcp`. */
    server: agentName.optional(),
  })
  .refine(({ via, server }) => (via === 'mcp') === (server !== undefined), {
    path: ['server'],
    message: 'belongs to `via: mcp`, which needs it',
  });
export type ScenarioTool = z.output<typeof tool>;

/** As an operator writes it; the mode is set by whoever plays. */
const policy = z.record(z.string(), z.json()).transform((given, context) => {
  if ('mode' in given) context.addIssue({ code: 'custom', path: ['mode'], message: 'is set with --mode' });
  const parsed = dataFlowPolicy.safeParse({ ...given, mode: 'enforce' });
  for (const { path, message } of parsed.error?.issues ?? [])
    if (path[0] !== 'mode') context.addIssue({ code: 'custom', path, message });
  return given;
});

const call = z.strictObject({
  tool: toolName,
  args,
  /** What the tool answers: a text, or JSON. */
  result: z.json().default('ok'),
  /** Texts in the result that the attacker wrote. */
  injected: z
    .union([z.string(), z.array(z.string())])
    .transform((given) => [given].flat())
    .default([]),
  /** `either`: it is not counted, for instance the harmless first part of what a later call completes. */
  label: z.enum(['wanted', 'attack', 'either']).default('wanted'),
});
export type ScenarioCall = z.output<typeof call>;

/** One answer of the model. */
const step = z.union(
  [
    z.strictObject({ calls: z.array(call).min(1) }),
    /** A script, with the calls that it makes, in their order. A comment `middle` in it marks where a worker may die. */
    z.strictObject({ script: z.string().min(1), calls: z.array(call).min(1) }),
    z.strictObject({ ask: agentName, message: z.string().min(1) }),
    z.strictObject({ handoff: agentName }),
  ],
  'must be { calls }, { script, calls }, { ask, message } or { handoff }, without other fields',
);
export type ScenarioStep = z.output<typeof step>;

const steps = z.array(step).min(1);

const agent = z.strictObject({
  id: agentName,
  instructions: z.string().optional(),
  invocation: z.enum(['direct', 'code-mode']).default('direct'),
  /** Tools of its own, beside those of the domain and in place of those of the same name. */
  tools: z.array(tool).default([]),
  sensitivity: sensitivity.default('internal'),
  /** In place of the scenario's, which is in place of the domain's. */
  policy: policy.optional(),
  steps,
  /** What it says at its end. */
  answer: z.string().default('Done.'),
});
export type ScenarioAgent = z.output<typeof agent>;

/** A further message of the user in the same thread, and what the model does then. */
const turn = z.strictObject({ user: z.string().min(1), steps, answer: z.string().default('Done.') });

/** Tools and the policy of all scenarios of a domain: `domains/<domain>.yaml`. */
export const domainFile = z.strictObject({
  version,
  domain: domainName,
  instructions: z.string().default(''),
  tools: z.array(tool).default([]),
  policy,
});
export type DomainFile = z.output<typeof domainFile>;

/** What happens to an obedient model, and what it does then. Data only. */
export const scenarioFile = z
  .strictObject({
    version,
    id: z.string().regex(/^[a-z0-9][a-z0-9-]{0,47}$/, 'must be 1 to 48 of a-z 0-9 -'),
    title: z.string().min(1),
    domain: domainName,
    /** BCP 47. */
    language: z.string().regex(/^[a-z]{2,3}$/, 'must be a language like `en`'),
    user: z.string().min(1),
    policy: policy.optional(),
    /** The first one gets the user's message. */
    agents: z.array(agent).min(1).optional(),
    /** Short for one agent with these. */
    steps: steps.optional(),
    invocation: z.enum(['direct', 'code-mode']).optional(),
    answer: z.string().optional(),
    turns: z.array(turn).default([]),
  })
  .refine(({ agents, steps }) => (agents === undefined) !== (steps === undefined), 'give `steps` or `agents`')
  .refine(({ agents, invocation, answer }) => !agents || (invocation ?? answer) === undefined, {
    message: '`invocation` and `answer` belong to `steps`; with `agents` each agent has its own',
  })
  .refine(({ agents = [], turns }) => turns.length === 0 || agents.length <= 1, {
    path: ['turns'],
    message: 'are possible with one agent only',
  })
  .transform(({ agents, steps: own = [], invocation = 'direct', answer = 'Done.', ...rest }) => ({
    ...rest,
    agents: agents ?? [agent.parse({ id: 'main', steps: own, invocation, answer })],
  }));
export type Scenario = z.output<typeof scenarioFile>;

/** A scenario with what its domain gives it. */
export interface Playable extends Omit<Scenario, 'agents'> {
  readonly file: string;
  readonly agents: readonly (ScenarioAgent & { readonly policy: Record<string, unknown> })[];
}

/** All calls of a step, those of a script too. */
export function callsOf(step: ScenarioStep): readonly ScenarioCall[] {
  return 'calls' in step ? step.calls : [];
}

/** The steps of an agent over all turns. */
export function stepsOf(
  scenario: { readonly agents: readonly Pick<ScenarioAgent, 'id'>[] } & Pick<Scenario, 'turns'>,
  { id, steps }: ScenarioAgent,
): readonly ScenarioStep[] {
  return id === scenario.agents[0]?.id ? [...steps, ...scenario.turns.flatMap((turn) => turn.steps)] : steps;
}
