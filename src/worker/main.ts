import { join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { agentViewOf } from '../shared/contract/agent/agent.ts';
import { type ChildMessage, parentMessage, standbyArgument } from '../shared/contract/child-messages.ts';
import { parseConfig, type Config } from '../shared/contract/config.ts';
import { messageOf, RunError } from '../shared/base/errors.ts';
import { systemClock } from '../shared/base/clock.ts';
import { jsonText } from '../shared/base/json.ts';
import { createLog, silentLog } from '../shared/base/log.ts';
import { checkNode, drainOnSignals, exitUnreachable, exitUsage, orStop, stop } from '../shared/base/program.ts';
import { Redactor } from '../shared/base/redact.ts';
import { loadTenants } from '../shared/contract/tenants.ts';
import { createBoundary } from './agents/credentials.ts';
import { buildWorker, type RunningWorker } from './build.ts';
import { onDemandQuarantine, untilIdleArgument } from './jobs/quarantine.ts';
import { createProviders } from './llm/backends/providers.ts';
import { createPriceLookup } from './llm/prices.ts';
import { checkModels, type CheckedModels } from './agents/check-models.ts';
import { loadAgents, unknownModel, type LoadedFolder } from './agents/load-agents.ts';
import { createToolSecrets } from './agents/tool-secrets.ts';
import { createToolkit } from './agents/toolkit.ts';

/** After the grace and this margin the process ends whatever still hangs. */
const forceExitMarginMs = 5_000;
/** How long a worker that another one has started stays without a run. */
const idleMs = 60_000;

async function main(args: readonly string[]): Promise<void> {
  checkNode();
  const config = orStop(() => parseConfig(process.env));
  const folder = args.slice(1).find((arg) => !arg.startsWith('-')) ?? config.MILLRACE_AGENTS;
  if (args[0] === 'agents') await listAgents(config, folder, args.includes('--json'));
  else await work(config, { untilIdle: args[0] === untilIdleArgument, standby: args[0] === standbyArgument });
}

/** Prints the agents of a folder, every problem in it, and what is odd about it. */
async function listAgents(config: Config, folder: string, json: boolean): Promise<void> {
  const redactor = new Redactor();
  const secrets = orStop(() => createToolSecrets({ folder: config.MILLRACE_SECRETS, env: process.env }));
  await using toolkit = orStop(() => createToolkit({ config, secrets, redactor, log: silentLog, clock: systemClock }));
  const loaded = await loadAgents(folder, toolkit.offer);
  const models = modelsIn(loaded, config);
  const problems = [...loaded.problems, ...models.problems].map((problem) => fromHere(folder, problem));
  const views = [...loaded.agents.values()].map((agent) => agentViewOf(agent.definition, config.DATA_FLOW_MODE));
  if (json) process.stdout.write(`${jsonText(views)}\n`);
  else
    for (const { id, model, tools, dataFlow } of views) {
      const flow = dataFlow === undefined ? '' : `  data flow ${dataFlow}`;
      process.stdout.write(`${id}  model ${model}  tools ${tools.join(', ') || 'none'}${flow}\n`);
    }
  for (const warning of [...loaded.warnings, ...models.warnings])
    process.stderr.write(`warning: ${fromHere(folder, warning)}\n`);
  if (problems.length > 0) stop(exitUsage, problems.join('\n'));
  process.exit(0);
}

/** What is wrong and odd about the models of agents. Where the providers are not set up they cannot be looked up. */
function modelsIn({ agents, incomplete, placed }: LoadedFolder, config: Config): CheckedModels {
  try {
    const providers = createProviders(config, (name) => process.env[name]);
    const price = createPriceLookup(config.MILLRACE_PRICES, providers.prices);
    const named = [...agents.values(), ...incomplete].filter(({ definition }) => definition.model !== unknownModel);
    const checked = named.map((agent) => ({ agent, ...checkModels(agent, providers, price) }));
    const all = (what: 'problems' | 'warnings') =>
      checked.flatMap(({ agent, ...found }) => found[what].map((text) => placed(agent.file, text)));
    return { problems: all('problems'), warnings: all('warnings') };
  } catch (error) {
    process.stderr.write(`the models were not looked up: ${messageOf(error)}\n`);
    return { problems: [], warnings: [] };
  }
}

interface Way {
  /** It ends once there is nothing to do. */
  readonly untilIdle: boolean;
  /** It waits for its parent once it has read its agents. */
  readonly standby: boolean;
}

async function work(config: Config, { untilIdle, standby }: Way): Promise<void> {
  const { providers, secrets, redactor } = orStop(() => createBoundary({ config, env: process.env }));
  const tenants = orStop(() => loadTenants(config.MILLRACE_TENANTS));
  const log = createLog('worker', config.LOG_LEVEL, redactor);
  const toolkit = orStop(() => createToolkit({ config, secrets, redactor, log, clock: systemClock }));
  const loaded = await loadAgents(config.MILLRACE_AGENTS, toolkit.offer);
  const { agents, tasks, problems, warnings, modules, ...functions } = loaded;
  if (problems.length > 0 && standby) await endWith(problems, config.MILLRACE_AGENTS);
  if (problems.length > 0) stop(exitUsage, `the agents have problems:\n  ${problems.join('\n  ')}`);
  if (standby) await untilGo({ type: 'loaded', agents: [...agents.keys()], files: [...modules] });
  for (const warning of warnings) log.warn(warning);
  if (providers.scripted) log.warn('no OPENAI_API_KEY or OPENAI_BASE_URL: using the built-in scripted model');
  const quarantine = onDemandQuarantine(fileURLToPath(import.meta.url), process.env, log);
  const worker = await buildWorker({
    config,
    log,
    redactor,
    agents,
    loadTask: (id) => tasks.get(id),
    functions,
    providers,
    tenants,
    toolkit,
    onUnservedQuarantine: (waiting) => quarantine.serve(waiting),
  }).catch((error: unknown) =>
    stop(error instanceof RunError && error.code === 'queue_unavailable' ? exitUnreachable : exitUsage, String(error)),
  );
  log.info(
    { worker: worker.name, healthPort: worker.healthPort, queues: config.WORKER_QUEUES, agents: [...agents.keys()] },
    'worker is ready',
  );
  if (process.connected) process.send?.({ type: 'ready', healthPort: worker.healthPort });

  const graceMs = config.SHUTDOWN_GRACE_MS;
  const drain = drainOnSignals({
    name: 'worker',
    log,
    forceExitMs: graceMs + forceExitMarginMs,
    facts: { graceMs },
    async close() {
      quarantine[Symbol.dispose]();
      await worker.stop(graceMs);
    },
  });
  if (untilIdle) onceIdle(worker, () => drain('nothing to do'));
}

/** Reports to the parent what there is, and resolves when the parent says `go`. */
async function untilGo(loaded: Extract<ChildMessage, { type: 'loaded' }>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const read = (message: unknown) => void (parentMessage.safeParse(message).success && resolve());
  const gone = () => process.exit(0);
  process.on('message', read);
  process.on('disconnect', gone);
  process.send?.(loaded);
  await promise;
  process.off('message', read);
  process.off('disconnect', gone);
}

/** A person opens the file of a problem from where the command was started. */
function fromHere(folder: string, problem: string): string {
  return problem.startsWith(folder) ? problem : join(normalize(folder), problem);
}

/** The parent shows the problems to a person. */
async function endWith(problems: readonly string[], folder: string): Promise<never> {
  const message: ChildMessage = { type: 'problems', problems: problems.map((problem) => fromHere(folder, problem)) };
  await new Promise<void>((resolve) => void process.send?.(message, () => resolve()));
  return process.exit(exitUsage);
}

/** Calls back once the worker has had no run for a while. */
function onceIdle(worker: RunningWorker, idle: () => void): void {
  let busyAt = performance.now();
  const look = setInterval(() => {
    if (worker.active() > 0) busyAt = performance.now();
    if (performance.now() - busyAt < idleMs) return;
    clearInterval(look);
    idle();
  }, 1_000).unref();
}

await main(process.argv.slice(2));
