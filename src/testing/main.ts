import { parseArgs } from 'node:util';
import { basename, dirname } from 'node:path';
import { unlessAborted } from '../shared/base/deadline.ts';
import { messageOf, RunError } from '../shared/base/errors.ts';
import { jsonText } from '../shared/base/json.ts';
import { checkNode, endAfterOutput, exitUsage, stop } from '../shared/base/program.ts';
import { flat, printable } from '../shared/base/words.ts';
import { parseConfig } from '../shared/contract/config.ts';
import { createBoundary } from '../worker/agents/credentials.ts';
import { wrapProvider, type LlmProvider } from '../worker/llm/provider.ts';
import { agentFrom, agentFromFile, type FolderAgent } from './folder-agent.ts';
import { costInWords, departureInWords, replayExport, type Replay } from './replay/replay.ts';
import { readExport } from './replay/read-export.ts';

const endedEarly =
  'the process ended before the replay had a result: code in the folder of the agent called process.exit, or waits for what never comes';

/** How long the folder of the agent may take to load. */
const loadMs = 30_000;
const loadedLate = `the folder of the agent was not loaded within ${loadMs / 1_000} s: a module of it may wait at its top for what never comes`;

/** The process of `millrace replay`: the command line itself loads no agents. */
async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: args.slice(1),
    options: { agent: { type: 'string' }, live: { type: 'boolean' }, json: { type: 'boolean' } },
    allowPositionals: true,
  });
  const recorded = readExport(positionals[0] ?? '');
  const agent = await agentOf(values.agent, recorded.run.agent);
  // Settings of the process, so that limits and prices are those of a worker here; the providers only where they are asked.
  const live = values.live ? { model: configuredModel(agent) } : {};
  const replay = await replayExport(recorded, agent, { env: process.env, ...live });
  process.stdout.write(values.json ? `${jsonText(withoutRun(replay), null, 2)}\n` : inWords(replay));
  return replay.departures.length === 0 ? 0 : 1;
}

async function agentOf(file: string | undefined, id: string): Promise<FolderAgent> {
  // Its timer keeps no process alive: one that has nothing else to wait for ends at once.
  const late = AbortSignal.timeout(loadMs);
  try {
    return await unlessAborted(loadedAgent(file, id), late);
  } catch (error) {
    throw late.aborted && error === late.reason ? new RunError('validation', loadedLate) : error;
  }
}

async function loadedAgent(file: string | undefined, id: string): Promise<FolderAgent> {
  if (file === undefined) return await agentFrom(parseConfig(process.env).MILLRACE_AGENTS, id, process.env);
  return await agentFromFile(dirname(file), basename(file), process.env);
}

/** Whatever serves the model of the agent here: the built-in scripted model where no provider is set up. */
function configuredModel({ agent }: FolderAgent): LlmProvider {
  const { providers } = createBoundary({ config: parseConfig(process.env), env: process.env });
  const { model, provider } = agent.definition;
  const served = (name: string) => {
    const found = providers.providerFor(name, provider);
    if (!found) throw new RunError('invalid_config', `no provider that is set up here serves the model ${name}`);
    return found;
  };
  return wrapProvider(served(model).provider, async (request, onPart, signal) => {
    const found = served(request.model);
    return await found.provider.generate({ ...request, model: found.model }, onPart, signal);
  });
}

function withoutRun(whole: Replay) {
  const { run: _, ...replay } = whole;
  return replay;
}

function inWords(replay: Replay): string {
  const { departures, notes, runId, agent, mode } = replay;
  const against = mode === 'live' ? 'its model' : 'the recorded answers';
  const head = `run ${runId} against agent ${agent} and ${against}: ${departures.length === 0 ? 'the same' : 'departs'}`;
  const lines = [
    head,
    ...departures.flatMap(departureInWords),
    ...notes.map((note) => `note: ${note}`),
    costInWords(replay),
  ];
  return lines.map((line) => `${flat(line)}\n`).join('');
}

// Code of the agents runs in this process and may end it: its status must not say then that the run goes the same way.
let hasEnded = false;
checkNode();
process.once('exit', () => {
  if (hasEnded) return;
  process.stderr.write(`${endedEarly}\n`);
  process.exitCode = exitUsage;
});
// Awaited at the top, a module that never answers would end in a warning of Node about this line.
main(process.argv.slice(2)).then(
  (code) => {
    hasEnded = true;
    endAfterOutput(code);
  },
  (error: unknown) => {
    hasEnded = true;
    stop(exitUsage, printable(messageOf(error)));
  },
);
