import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import type { Log } from '../../shared/base/log.ts';
import { serverPrefix, serverTool } from '../../shared/contract/agent/mcp.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { ThreadManifest } from '../../shared/contract/thread/thread.ts';
import { hardText } from '../guards/hard-rules.ts';
import type { Policy, PolicyQuestion } from '../guards/policy.ts';
import { createAskAgentTools, type AskableAgent, createHandoffTool } from '../tools/builtin/agents.ts';
import { createReadResultTool } from '../tools/builtin/read-result.ts';
import { createReadSkillTool } from '../tools/builtin/read-skill.ts';
import { createToolSearch } from '../tools/builtin/tool-search.ts';
import {
  mergedParts,
  sideChannels,
  withCapabilities,
  type AgentToolSettings,
  type ResolvedCapabilities,
} from '../tools/capabilities.ts';
import { configuredTools } from '../tools/configure.ts';
import type { ToolRunContext } from '../tools/execute/batch.ts';
import type { ToolSet } from '../tools/execute/execute.ts';
import { isReservedName, safeName } from '../tools/names.ts';
import { createToolRegistry, type ToolRegistry } from '../tools/registry.ts';
import type { ChangedTools } from '../tools/mcp/server-pins.ts';
import type { ResultReader, OpenedTools } from '../tools/source.ts';
import { createSpillReader, spillOf } from '../tools/execute/spill.ts';
import type { Tool } from '../tools/tool.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import { createAgentTool } from '../agents/agent-tool.ts';
import { childIdFor, depthOf } from './delegate.ts';
import { crossingWatchOf, protocolModeOf } from './leak-watch.ts';
import type { ToolServices } from '../agents/toolkit.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';

/** The run that a toolbox is opened for. */
export interface ToolboxRun {
  readonly record: RunRecord;
  /** Of its thread. */
  readonly manifest?: ThreadManifest | undefined;
  readonly state: Pick<TurnState, 'initial' | 'earlier' | 'own' | 'handoffs' | 'step'>;
  readonly emit: (event: EventBody) => void;
}

/** The open tools of one run. */
export interface Toolbox extends AsyncDisposable {
  readonly set: ToolSet;
  readonly context: ToolRunContext;
}

/** Opens what an agent's tools need. Close it when this process releases the run. */
export async function openToolbox(agent: LoadedAgent, run: ToolboxRun, services: ToolServices, signal: AbortSignal) {
  const brought = await broughtBy(agent, run, services, signal);
  const definition = withCapabilities(agent.definition, brought);
  const complete = { ...agent, tools: [...agent.tools, ...brought.tools], definition };
  const servers = usesServers(definition) ? await serversOf(definition, run, services, signal) : undefined;
  return {
    set: setOf(complete, servers, services),
    context: contextOf(agent.definition, run, services),
    [Symbol.asyncDispose]: async () => await servers?.[Symbol.asyncDispose](),
  };
}

/** The tools of an agent as far as they are known before a run: those of servers and capabilities are not. */
export function knownTools(agent: LoadedAgent, services: ToolServices): ToolRegistry {
  const set = setOf(agent, undefined, services);
  const tools = configuredTools(set.tools(), agent.definition.toolOptions, set.collisions);
  return createToolRegistry(tools, set.advertises);
}

/** What the agent's capabilities and then the injections add. In a sandbox: tools, and no servers. */
async function broughtBy(
  { definition, folder }: LoadedAgent,
  { record, state, manifest, emit }: ToolboxRun,
  { capabilities, workspaceOf, directoriesOf, agents }: ToolServices,
  signal: AbortSignal,
): Promise<ResolvedCapabilities> {
  const { id: agentId, trust } = definition;
  if (!capabilities) return { mcpServers: {}, tools: [] };
  const { runId, tenant, request } = record;
  const context = defined({
    agentId,
    agent: definition,
    runId,
    tenant,
    background: request.overrides?.background ?? false,
    callbacks: sideChannels(emit),
    directories: directoriesOf?.(definition) ?? [],
    manifest,
    threadId: request.thread,
    agentDir: folder,
    workspaceDir: workspaceOf?.(definition),
    askAgentDepth: depthOf(record, state),
    agentTool: (id: string, options?: AgentToolSettings) => toolOfAgent(id, options, agents),
  });
  // Not again for each segment of the run.
  if (state.step === (state.handoffs.at(-1)?.step ?? 0))
    for (const name of capabilities.skipped(definition)) emit({ type: 'capability.skipped', name });
  const resolved = mergedParts([
    await capabilities.resolve(definition, context, signal),
    await capabilities.injections(context, signal),
  ]);
  return trust === 'sandbox' ? { ...resolved, mcpServers: {} } : resolved;
}

function toolOfAgent(id: string, options: AgentToolSettings | undefined, agents: ToolServices['agents']): Tool {
  const known = agents?.() ?? new Map<string, LoadedAgent>();
  const found = known.get(id)?.definition;
  if (found) return createAgentTool(found, options);
  throw new RunError(
    'validation',
    `there is no agent ${id} to ask; known are ${[...known.keys()].join(', ') || 'none'}`,
  );
}

function usesServers({ tools }: AgentDefinition): boolean {
  return tools.some((name) => name.startsWith(serverPrefix));
}

async function serversOf(
  definition: AgentDefinition,
  { record: { runId, tenant }, state, emit }: ToolboxRun,
  { openServers }: ToolServices,
  signal: AbortSignal,
): Promise<OpenedTools | undefined> {
  const vouchedFor = vouchedNames(definition);
  // Also results that a summary has replaced: what they name may still be read.
  const results = [...state.initial, ...state.earlier, ...state.own].flatMap((message) =>
    message.role === 'tool' && (message.trust === 'mcp-derived' || vouchedFor.has(message.toolName))
      ? [message.content]
      : [],
  );
  let isOpen = true;
  const onToolsChanged = ({ server, pin, tools, more }: ChangedTools) => {
    if (isOpen) emit({ type: 'mcp.tools_changed', server, pin, tools: [...tools], more });
  };
  const opened = await openServers?.(definition, { runId, tenant, results, onToolsChanged }, signal);
  return (
    opened && {
      tools: () => opened.tools(),
      resultReaders: opened.resultReaders,
      async [Symbol.asyncDispose]() {
        isOpen = false;
        await opened[Symbol.asyncDispose]();
      },
    }
  );
}

/** The names that tools of servers may have here whose results the agent labels itself. */
function vouchedNames({ toolOptions }: AgentDefinition): ReadonlySet<string> {
  const names = Object.entries(toolOptions).flatMap(([key, { trust }]) => {
    if (trust === undefined || !key.startsWith(serverPrefix)) return [];
    const { server, tool = '' } = serverTool(key);
    return [safeName(tool), safeName(`${server}__${safeName(tool)}`)];
  });
  return new Set(names);
}

/** The tools of the agent, with the built-in ones that they need. */
function setOf(agent: LoadedAgent, servers: OpenedTools | undefined, services: ToolServices): ToolSet {
  const { definition, resultReaders = [], skills = [] } = agent;
  const { artifacts, codeTools = [], log } = services;
  const readers: readonly ResultReader[] = [
    ...(artifacts ? [createSpillReader(artifacts)] : []),
    ...(servers?.resultReaders ?? []),
    ...resultReaders,
  ];
  const readResult = createReadResultTool(readers);
  const toolSearch = createToolSearch();
  // The system text has the name of this one.
  const readSkill = skills.length > 0 ? [createReadSkillTool(skills)] : [];
  const inScripts = definition.toolInvocation === 'code-mode';
  const others = askable(definition, services);
  const askTools = [
    ...(others.length > 0 ? createAskAgentTools(others) : []),
    ...agentTools(definition, services),
    ...handoffTools(definition, services),
  ];
  let known: readonly Tool[] | undefined;
  let all: readonly Tool[] = [];
  return {
    collisions: definition.toolCollisions,
    advertises: inScripts ? isBesideScripts : undefined,
    tools() {
      const fromServers = servers?.tools() ?? [];
      if (fromServers !== known) {
        known = fromServers;
        const own = [...readSkill, ...agent.tools, ...askTools, ...fromServers];
        const add = (tool: Tool, needed: boolean) => (needed ? [tool] : []);
        const configured = configuredTools(own, definition.toolOptions, definition.toolCollisions);
        warnOfRenamed(configured, log);
        const spills = configured.some(({ truncationStrategy }) => truncationStrategy === 'spill-to-file');
        const defers = configured.some(({ deferLoading }) => deferLoading);
        all = [
          ...own,
          ...(inScripts ? codeTools : add(toolSearch, defers)),
          ...add(readResult, readers.length > (artifacts ? 1 : 0) || (spills && artifacts !== undefined)),
        ];
      }
      return all;
    },
  };
}

/**
 * In code mode the model sees the tools that run scripts, and those that no script can call: a script cannot wait
 * for a person or for another agent.
 */
function isBesideScripts({ name, delegate, handoff, asks, needsApproval, unaccepted }: Tool): boolean {
  return (
    [delegate, handoff, asks, unaccepted].some((way) => way !== undefined) ||
    needsApproval !== false ||
    isReservedName(name)
  );
}

const maxLoggedNames = 20;

/** A server that lists names of our tools is misconfigured, or imitates them. */
function warnOfRenamed(tools: readonly Tool[], log: Log): void {
  const renamed = tools.filter(({ name, source }) => source && source.safeName !== name);
  for (const server of new Set(renamed.map(({ source }) => source?.server))) {
    const names = renamed.filter(({ source }) => source?.server === server).map(({ source }) => source?.tool);
    log.warn(
      { server, tools: names.slice(0, maxLoggedNames) },
      'tools of an mcp server have names that are taken: renamed',
    );
  }
}

/** The agents that this one has as tools. */
function agentTools({ agentTools: rules }: AgentDefinition, { agents }: ToolServices): readonly Tool[] {
  return Object.entries(rules).map(([name, { agent, inputFilter, ...rule }]) =>
    createAgentTool(
      { id: agent, description: agents?.().get(agent)?.definition.description },
      { ...rule, name, inputFilter },
    ),
  );
}

/** A tool for each agent that this one may hand off to. */
function handoffTools({ handoffs }: AgentDefinition, { agents }: ToolServices): readonly Tool[] {
  return handoffs.map(({ agent, description }) =>
    createHandoffTool(agent, description ?? agents?.().get(agent)?.definition.description),
  );
}

/** The agents that this one may ask: those that it names, or with `*` all others. */
function askable({ id: self, subagents }: AgentDefinition, { agents }: ToolServices): readonly AskableAgent[] {
  if (subagents.length === 0 || !agents) return [];
  const loaded = [...agents().values()].map(({ definition }) => definition);
  const all = subagents.includes('*');
  return loaded
    .filter(({ id }) => subagents.includes(id) || (all && id !== self))
    .map(({ id, description }) => ({ id, description }));
}

/** Is there a tool whose large results may be kept? Those of servers and capabilities are not known here: they may. */
export function mayKeepResults({ definition, tools }: LoadedAgent): boolean {
  const { toolOptions } = definition;
  return (
    usesServers(definition) ||
    definition.capabilities.length > 0 ||
    tools.some((tool) => strategyOf(tool, toolOptions) === 'spill-to-file') ||
    Object.values(toolOptions).some(({ truncationStrategy }) => truncationStrategy === 'spill-to-file')
  );
}

function strategyOf({ name, truncationStrategy }: Tool, options: AgentDefinition['toolOptions']) {
  return options[name]?.truncationStrategy ?? truncationStrategy;
}

function contextOf(definition: AgentDefinition, { record, state }: ToolboxRun, services: ToolServices): ToolRunContext {
  const { runId, tenant, request } = record;
  const { artifacts, secrets, breakers, log } = services;
  const { approvals, interaction, policyDenial, approvalDenial, trust } = definition;
  const toolsOf = (id: string) => services.agents?.().get(id)?.definition.tools ?? [];
  const crossings = crossingWatchOf(record, definition, toolsOf);
  const policy = services.policyOf?.(definition);
  const directories = services.directoriesOf?.(definition) ?? [];
  return {
    runId,
    tenant,
    about: defined({ agentId: definition.id, tenant, threadId: request.thread, sessionId: request.sessionId }),
    metadata: request.metadata ?? {},
    inputs: request.node?.inputs,
    keyFor: (step, index) => `${runId}:s${step}:t${index}`,
    childIdFor: (step, index) => childIdFor(runId, step, index),
    depth: depthOf(record, state),
    hasAgent: (id) => services.agents?.().has(id) ?? false,
    secretsAllowed: record.parent?.secrets,
    options: definition.toolOptions,
    crossings,
    notesDenials: crossings !== undefined || record.parent?.leaks !== undefined,
    protocol: protocolModeOf(definition),
    policy: policy && trust === 'sandbox' ? sandboxed(policy) : policy,
    flow: services.flowOf?.(definition),
    people: { isHeadless: interaction === 'headless', ...approvals },
    denials: { policyDenial, approvalDenial },
    secrets,
    spill: artifacts && spillOf(artifacts, runId, log),
    breakers,
    workspaceDir: services.workspaceOf?.(definition),
    directories: directories.length > 0 ? directories : undefined,
    log,
  };
}

/** In a sandbox no tool starts a process or contacts another host, as far as its facts show. */
function sandboxed(policy: Policy): Policy {
  const refusal = ({ facts }: PolicyQuestion) =>
    facts?.command !== undefined || (facts?.urls ?? []).length > 0
      ? ({ action: 'deny', hard: 'not_granted', reason: hardText.not_granted } as const)
      : undefined;
  return {
    isEmpty: policy.isEmpty,
    isAbout: (subject) => policy.isAbout(subject),
    decideHard: (question) => refusal(question) ?? policy.decideHard(question),
    decide: (question) => refusal(question) ?? policy.decide(question),
  };
}
