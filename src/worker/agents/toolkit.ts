import { join } from 'node:path';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import type { Clock } from '../../shared/base/clock.ts';
import type { Config } from '../../shared/contract/config.ts';
import { effectiveFlow, type DataFlowPolicy } from '../../shared/contract/flow.ts';
import { createEgress, type Egress } from '../../shared/egress/egress.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { Policy } from '../guards/policy.ts';
import type { ProgressNotes } from '../../shared/state/results/progress-notes.ts';
import type { Artifacts } from '../../shared/state/results/artifacts.ts';
import type { ToolPins } from '../../shared/state/pins/tool-pins.ts';
import type { Breakers } from '../../shared/state/limits/breakers.ts';
import type { LoadedAgent, ToolOffer } from './loaded-agent.ts';
import { loadPolicyFile, policyFor, policyWarnings, type PolicyFile } from './policy-file.ts';
import type { ToolSecrets } from './tool-secrets.ts';
import { createAskUser, notifyUser } from '../tools/builtin/user.ts';
import { folderBelow } from '../tools/file-within.ts';
import { createHttpRequestTool } from '../tools/builtin/http-request.ts';
import { createProgressTools } from '../tools/builtin/progress.ts';
import { createReadFileTool } from '../tools/builtin/read-file.ts';
import { createCapabilityRegistry, type CapabilityRegistry, type CapabilityResolver } from '../tools/capabilities.ts';
import { ScriptPool } from '../tools/code-mode/pool.ts';
import { createCodeTools } from '../tools/code-mode/tools.ts';
import { mcpGrantProblems } from '../tools/names.ts';
import { McpHub, type McpRun } from '../tools/mcp/hub.ts';
import type { ToolRunContext } from '../tools/execute/batch.ts';
import type { OpenedTools } from '../tools/source.ts';
import type { Tool } from '../tools/tool.ts';
import { readFileSync } from 'node:fs';

export interface ToolkitOptions {
  readonly config: Config;
  readonly secrets: ToolSecrets;
  readonly redactor: Redactor;
  readonly log: Log;
  readonly clock: Clock;
  /** How long connections to MCP servers over HTTP outlive the last run that used them. See `McpHub`. */
  readonly serverIdleMs?: number | undefined;
  /** By name. */
  readonly capabilities?: Readonly<Record<string, CapabilityResolver>> | undefined;
}

/** What the tools of all runs of a worker share. What is absent is not there for any of them. */
export interface ToolServices {
  /** Opens the MCP servers of an agent for one run. Throws `mcp_unavailable` when one that is required cannot be reached. */
  readonly openServers?: (agent: AgentDefinition, run: McpRun, signal: AbortSignal) => Promise<OpenedTools>;
  readonly capabilities?: CapabilityRegistry;
  /** The folder that an agent's tools may read. */
  readonly workspaceOf?: (agent: AgentDefinition) => string | undefined;
  /** More folders that they see. */
  readonly directoriesOf?: (agent: AgentDefinition) => readonly string[];
  readonly policyOf?: (agent: AgentDefinition) => Policy;
  /** The data-flow policy of an agent, as it holds here. Undefined: it is off. */
  readonly flowOf?: (agent: AgentDefinition) => DataFlowPolicy | undefined;
  readonly secrets?: ToolRunContext['secrets'];
  readonly artifacts?: Artifacts;
  /** How files behind URLs in inputs are had. Absent: they are refused. */
  readonly inputUrls?: { readonly mode: Config['INPUT_URLS']; readonly fetch?: Egress['fetch'] };
  readonly breakers?: Pick<Breakers, 'admit' | 'report'>;
  /** The agents of this worker, for those that ask each other. */
  readonly agents?: () => ReadonlyMap<string, LoadedAgent>;
  /** The tools that run scripts, for agents in code mode. */
  readonly codeTools?: readonly Tool[];
  readonly log: Log;
}

/** What the tools of a process share, before and after its stores are there. */
export interface Toolkit extends AsyncDisposable {
  /** For loading agents. */
  readonly offer: ToolOffer;
  /** What is there once the stores are. */
  services(stores: ToolStores): ToolServices;
}

export interface ToolStores {
  readonly artifacts: Artifacts;
  readonly progress: ProgressNotes;
  readonly breakers: Breakers;
  readonly pins: ToolPins;
}

/** Names that agents may write into `tools` beside their own, each with what makes the tool. */
type Builtins = Readonly<Record<string, (fileScope: string | undefined) => Tool>>;

/** Throws `invalid_config` listing every problem of the policy file. Starts nothing that is not needed. */
export function createToolkit(options: ToolkitOptions): Toolkit {
  const { config, secrets, redactor, log, clock, serverIdleMs: idleMs, capabilities: given = {} } = options;
  const policies = loadPolicyFile(config.MILLRACE_POLICIES);
  const egress = createEgress({ allowedHosts: config.EGRESS_ALLOWED_HOSTS });
  const scripts = new ScriptPool({ size: config.CODE_MODE_PROCESSES, log, clock });
  const servers = new McpHub({ egress, secrets, redactor, log, clock, version: packageVersion, idleMs });
  const capabilities = createCapabilityRegistry({ clock });
  for (const [name, resolver] of Object.entries(given)) capabilities.register(name, resolver);
  capabilities.inject('notify-user', notifyUser);
  const policyOf = policiesOf(config, policies, egress);
  let stores: ToolStores | undefined;
  const progress = () => {
    if (stores) return stores.progress;
    throw new RunError('internal', 'a tool was called before its store was there');
  };
  return {
    offer: offerOf(config, builtinsOf(options, policies, egress, progress), policies, capabilities),
    services(opened) {
      stores = opened;
      return {
        openServers: (agent, run, signal) => servers.open(agent, { ...run, pins: opened.pins }, signal),
        capabilities,
        workspaceOf: ({ fileScope }) => config.MILLRACE_FILES && join(config.MILLRACE_FILES, fileScope ?? ''),
        directoriesOf: ({ directories }) => directories.map((path) => join(config.MILLRACE_FILES ?? '', path)),
        policyOf,
        flowOf: ({ dataFlowPolicy }) => effectiveFlow(dataFlowPolicy, config.DATA_FLOW_MODE),
        secrets,
        artifacts: opened.artifacts,
        inputUrls: { mode: config.INPUT_URLS, fetch: egress.fetch },
        breakers: opened.breakers,
        codeTools: createCodeTools(scripts, () => clock.now()),
        log,
      };
    },
    async [Symbol.asyncDispose]() {
      await servers[Symbol.asyncDispose]();
      await scripts[Symbol.asyncDispose]();
      await egress[Symbol.asyncDispose]();
    },
  };
}

/** The rules of the operator and of an agent, read once for each agent. */
function policiesOf(config: Config, policies: PolicyFile, egress: Egress): (agent: AgentDefinition) => Policy {
  // Who may be contacted although it is inside may be contacted without TLS.
  const allowInsecure = [...policies.allowInsecure, ...config.EGRESS_ALLOWED_HOSTS];
  const operator = { ...policies, allowInsecure };
  const known = new WeakMap<AgentDefinition, Policy>();
  return (agent) => {
    const policy = known.get(agent) ?? policyFor(operator, agent.policies, (host) => egress.isPrivateHost(host));
    known.set(agent, policy);
    return policy;
  };
}

function builtinsOf(
  { config, redactor }: ToolkitOptions,
  policies: PolicyFile,
  egress: Egress,
  progress: () => ProgressNotes,
): Builtins {
  const domains = bothOf(config.EGRESS_DOMAINS, policies.domains);
  const notes: ProgressNotes = {
    write: (draft) => progress().write(draft),
    read: (tenant, runId, query) => progress().read(tenant, runId, query),
  };
  const [writeProgress, readProgress] = createProgressTools(notes, redactor);
  return {
    ask_user: createAskUser,
    http_request: () => createHttpRequestTool({ egress, domains }),
    read_file: (scope) => createReadFileTool({ root: config.MILLRACE_FILES, scope }),
    progress_write: () => writeProgress,
    progress_read: () => readProgress,
  };
}

/** What agents may name when they are loaded, and what is wrong with how they do. */
function offerOf(config: Config, builtins: Builtins, policies: PolicyFile, registry: CapabilityRegistry): ToolOffer {
  return {
    names: Object.keys(builtins),
    find: (name, { fileScope }) => (Object.hasOwn(builtins, name) ? builtins[name]?.(fileScope) : undefined),
    register: (name, resolver) => registry.register(name, resolver),
    problemsOf: (agent) => [
      ...mcpGrantProblems(agent),
      ...registry.check(agent).problems,
      ...directoryProblems(agent, config.MILLRACE_FILES),
    ],
    warningsOf: (agent, tools) => [
      ...registry.check(agent).warnings,
      ...policyWarnings(policies, agent.policies, {
        tools: new Set(tools.map(({ name }) => name)),
        isComplete: Object.keys(agent.mcpServers).length === 0 && policies.rules.length === 0,
      }),
    ],
  };
}

function directoryProblems({ directories }: AgentDefinition, root: string | undefined): readonly string[] {
  if (directories.length === 0) return [];
  if (root === undefined) return ['directories: MILLRACE_FILES is not set, below which they are'];
  return directories.flatMap((path) => {
    const below = folderBelow(root, path);
    return below.kind === 'none' ? [`directories: ${below.problem}`] : [];
  });
}

/** What both lists allow; a list that is absent allows everything. */
function bothOf(hosts: readonly string[] | undefined, names: readonly string[] | undefined) {
  if (!hosts || !names) return hosts ?? names;
  return hosts.filter((host) => names.includes(host.replace(/:\d+$/, '')));
}

const manifest = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');

/** This build's version. */
export const { version: packageVersion } = JSON.parse(manifest) as { readonly version: string };
