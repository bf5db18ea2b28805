import { AssertionError } from 'node:assert';
import { jsonOr, isRecord } from '../../shared/base/json.ts';
import { Redactor } from '../../shared/base/redact.ts';
import { RunError } from '../../shared/base/errors.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import { isTerminalStatus } from '../../shared/contract/plain/ends.ts';
import { workOf } from '../../shared/contract/run.ts';
import type { RunExport } from '../../shared/contract/archive/run-export.ts';
import { definitionRecord } from '../../worker/agents/definition-record.ts';
import type { Agent } from '../../worker/agents/define-agent.ts';
import type { LoadedAgent } from '../../worker/agents/loaded-agent.ts';
import type { LlmProvider } from '../../worker/llm/provider.ts';
import { isAskAbout } from '../../worker/tools/execute/ask-id.ts';
import { FakeClock } from '../fake-clock.ts';
import type { FolderAgent } from '../folder-agent.ts';
import { scriptedModel } from '../scripted-model.ts';
import type { Script } from '../scripts.ts';
import { testAgentWith, type TestRun } from '../test-agent.ts';
import { departuresOf, type Departure, type Replayed } from './departures.ts';
import { readExport } from './read-export.ts';
import { allChildren, RecordedRun, stoppedBy } from './recorded-run.ts';
import { ServerTools } from './server-tools.ts';

export interface ReplayOptions {
  /**
   * Asked in place of the recording: the run departs at the first call that differs from the recorded ones. Tools answer what
   * they answered then. Default: the recorded answers.
   */
  readonly model?: Script | LlmProvider;
  /** Settings by the names of the environment variables. Default: none, whatever the environment of the process is. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** A recorded run, once more, with the present definition of its agent. */
export interface Replay {
  readonly agent: string;
  /** The run that was recorded. */
  readonly runId: string;
  readonly mode: 'recorded' | 'live';
  /** The first of each kind, for the run and for each run that works for it. Empty: the agent would do the same. */
  readonly departures: readonly Departure[];
  /** What the recorded run cost, and what the replayed one would at present prices, in microcents. Runs that worked for it count. */
  readonly recordedMicrocents: number;
  readonly costMicrocents: number;
  /** What the replay could not take from the export. */
  readonly notes: readonly string[];
  /** The replayed run, for other assertions. */
  readonly run: TestRun;
}

/**
 * Runs an export of `millrace export` against an agent: its prompt, tools, policies and limits of now meet the recorded answers of
 * models, results of tools and decisions of people. Nothing is sent anywhere, no code of a tool runs. Throws `validation` for a
 * file that is no export, and for runs that are not turns of an agent.
 *
 * @example
 * const replay = await replayExport('test/exports/order-7.json', support);
 * assertNoDepartures(replay);
 */
export async function replayExport(
  file: string | RunExport,
  agent: Agent | FolderAgent,
  { model, env = {} }: ReplayOptions = {},
): Promise<Replay> {
  const recorded = typeof file === 'string' ? readExport(file) : file;
  const { run: before, request, initial } = recorded;
  refuseOrchestrated(recorded);
  refuseUnended(recorded);
  const known = new RecordedRun(recorded);
  const servers = new ServerTools(recorded);
  const asked: { readonly runId: string; readonly stepNumber: number; readonly askId: string }[] = [];
  let agents: ReadonlyMap<string, LoadedAgent> = new Map();
  const clock = new FakeClock({ startAt: before.startedAt ?? before.createdAt, skipWaits: true });
  const tested = testAgentWith(
    agent,
    {
      model: model ?? scriptedModel((asking) => known.answer(asking), { clock, id: providerOf(recorded) }),
      clock,
      env,
    },
    {
      inPlaceOf: (tool) => (args, context) => known.result(tool, args, context),
      ask: (item, runId) => {
        asked.push({ runId, stepNumber: known.stepOf(runId), askId: item.toolCallId ?? '' });
        // No person was asked then: the replay shows what comes after. A question has no answer that could be made up.
        return known.verdict(item, runId) ?? { granted: item.kind !== 'user_input' };
      },
      toolsOf: (server, definition) => servers.of(server, definition, ownNamesOf(agents.get(definition.id))),
      onLoaded: (loaded) => void (agents = loaded),
      onEvents: (events) => events.forEach((event) => known.saw(event)),
    },
  );
  const { limits, overrides, budget, history, instructions, outputSchema } = request;
  const past = history ?? pastOf(initial);
  const run = await tested.run(request.input, { limits, overrides, budget, history: past, instructions, outputSchema });
  const isLive = model !== undefined;
  const replayed = ([runId, repeated]: readonly [string, RunExport]): Replayed => {
    const loaded = agents.get(repeated === recorded ? tested.id : repeated.run.agent);
    return {
      recorded: repeated,
      isChild: repeated !== recorded,
      outcome: runId === run.runId ? run : tested.outcomeOf(runId),
      calls: run.calls.filter((call) => call.runId === runId),
      requests: run.requests.filter(({ requestId }) => requestId.startsWith(`${runId}:`)),
      definition: definitionOf(loaded),
      skills: loaded?.skills,
      isAsked: ({ stepNumber, toolCallId }) =>
        asked.some(
          (ask) =>
            ask.runId === runId && ask.stepNumber === stepNumber && isAskAbout(ask.askId, toolCallId, stepNumber),
        ),
    };
  };
  return {
    agent: tested.id,
    runId: before.runId,
    mode: isLive ? 'live' : 'recorded',
    departures: departuresOf([...known.repeated].map(replayed), isLive),
    recordedMicrocents: before.costMicrocents,
    costMicrocents: run.costMicrocents,
    notes: [...notesOn(recorded), ...servers.notes()],
    run,
  };
}

/** Throws unless the replay did what the recorded run had done: the error has the first departure of each kind. */
export function assertNoDepartures(replay: Replay): void {
  const { departures, runId } = replay;
  if (departures.length === 0) return;
  const message = [
    `run ${runId} would go another way`,
    ...departures.flatMap(departureInWords),
    costInWords(replay),
  ].join('\n');
  throw new AssertionError({ message, actual: departures, expected: [], operator: 'millrace' });
}

export function departureInWords({ kind, stepNumber, child, what, recorded, now }: Departure): string[] {
  const step = stepNumber === undefined ? [] : [`step ${stepNumber}`];
  const where = [...step, ...(child ? [`run ${child.runId} of agent ${child.agent}`] : [])].join(' of ');
  const at = where === '' ? '' : ` (${where})`;
  return [`${kind}: ${what}${at}`, `  recorded: ${recorded}`, `  now:      ${now}`];
}

export function costInWords({ recordedMicrocents, costMicrocents }: Replay): string {
  return `It cost ${formatUsd(recordedMicrocents)}; at present prices it would cost ${formatUsd(costMicrocents)}.`;
}

/** Its prices are those of the replay. */
function providerOf({ steps }: RunExport): string {
  return steps.steps.find(({ provider }) => provider !== undefined)?.provider ?? 'scripted';
}

function ownNamesOf(agent: LoadedAgent | undefined): ReadonlySet<string> {
  return new Set(agent?.tools.map(({ name }) => name));
}

function definitionOf(agent: LoadedAgent | undefined): Readonly<Record<string, unknown>> {
  const found = agent && jsonOr(definitionRecord(agent, new Redactor()).json);
  return isRecord(found) ? found : {};
}

function refuseOrchestrated({ request, run }: RunExport): void {
  const { kind } = workOf(request);
  if (kind === 'turn') return;
  const what = { node: 'a node of a workflow', fanOut: 'a fan-out', evaluate: 'an evaluation', task: 'a task' }[kind];
  throw new RunError(
    'validation',
    `run ${run.runId} is ${what}: replay works on turns of an agent, export its children`,
  );
}

function refuseUnended({ run: { runId, status, startedAt } }: RunExport): void {
  if (!isTerminalStatus(status))
    throw new RunError('validation', `run ${runId} has not ended (it is ${status}): export it once it has`);
  if (startedAt === undefined) throw new RunError('validation', `run ${runId} never began: there is nothing to replay`);
}

/** What was said before the input, of a run in a thread. */
function pastOf(initial: RunExport['initial']) {
  const said = initial.slice(0, -1).flatMap((message) => {
    const { role, content } = message;
    return (role === 'user' || role === 'assistant') && content ? [{ role, content }] : [];
  });
  return said.length === 0 ? undefined : said;
}

function notesOn(recorded: RunExport): string[] {
  const { request, agent, steps, truncated } = recorded;
  const masked = steps.steps.some(({ calls }) => calls.some((call) => call.argsMasked || call.result?.withheld));
  const cut = steps.steps.some(({ calls }) => calls.some(({ inner }) => inner.some(({ result }) => result?.cut)));
  return [
    ...[recorded, ...allChildren(recorded)].flatMap(stopNote),
    ...(cut ? ['of the results of calls that scripts made only the beginning is known, where it is long'] : []),
    ...(agent === null ? ['the export has no definition of the agent: its tools are not compared'] : []),
    ...(request.files?.length ? ['its input has files, which an export does not hold: they are left out'] : []),
    ...(masked ? ['arguments or results are masked: calls go by what is left of them'] : []),
    ...(truncated || steps.truncated ? ['parts of the run were not kept: it may end before its recorded end'] : []),
  ];
}

function stopNote({ run }: RunExport): string[] {
  const how = stoppedBy(run);
  return how === undefined
    ? []
    : [`run ${run.runId} of agent ${run.agent} ${how}: it is compared as far as it had come`];
}
