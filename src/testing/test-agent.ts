import type { InputPart } from '../shared/contract/input-parts.ts';
import type { Clock } from '../shared/base/clock.ts';
import { RunError } from '../shared/base/errors.ts';
import { runIdForExecution } from '../shared/base/ids.ts';
import type { DecisionInput } from '../shared/contract/control.ts';
import type { PendingView, RunEvent } from '../shared/contract/event.ts';
import { outcomeViewOf, type RunOutcomeView, type RunRequestInput } from '../shared/contract/run.ts';
import type { Agent } from '../worker/agents/define-agent.ts';
import { wrapProvider, type LlmProvider, type LlmRequest } from '../worker/llm/provider.ts';
import type { AgentHandle, AgentRunOptions, CreateAgentOptions } from '../worker/local/agent-handle.ts';
import { createAgentWith } from '../worker/local/create-agent.ts';
import type { PersonVerdict } from '../worker/local/drive.ts';
import type { Tool } from '../worker/tools/tool.ts';
import { FakeClock } from './fake-clock.ts';
import type { FolderAgent } from './folder-agent.ts';
import { scriptedModel, type ScriptedModel } from './scripted-model.ts';
import type { Script } from './scripts.ts';
import { standInSeams, ToolLog, type AllTools, type StandIn } from './stand-ins.ts';
import { callsOf, type TestCall } from './test-calls.ts';

/** What a person in a test says: a verdict, nothing in time (`expires`), or a function that decides about each call. */
export type TestPerson =
  | PersonVerdict
  | 'expires'
  | ((item: PendingView) => PersonVerdict | 'expires' | undefined | Promise<PersonVerdict | 'expires' | undefined>);

/** What a test puts in place, beside the options that `createAgent` has. */
export interface TestAgentOptions extends Pick<
  CreateAgentOptions,
  'agents' | 'middleware' | 'onAuthError' | 'loadTask' | 'capabilities'
> {
  /** Serves every model of these agents: a script, or a provider such as `scriptedModel` and `recordedModel` make. */
  readonly model: Script | LlmProvider;
  /** Default: a new `FakeClock` that skips waits. */
  readonly clock?: Clock;
  /** By name: what runs in place of the code of a tool, of any of the agents. */
  readonly tools?: Readonly<Record<string, StandIn>>;
  /** By name: the tools of an MCP server, made with `defineTool`. The server itself is not contacted. */
  readonly servers?: Readonly<Record<string, readonly Tool[]>>;
  /**
   * By tool: what people decide about calls that need an approval, and answer to questions (`ask_user`). A call of a tool that is
   * not in here waits: the run ends as `suspended`, and goes on with the functions of the `TestRun`.
   */
  readonly people?: Readonly<Record<string, TestPerson>>;
  /** Settings by the names of the environment variables. Default: none, whatever the environment of the process is. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** A run that has ended, or waits: plain data, to look at with any test runner. */
export interface TestRun extends RunOutcomeView {
  /** The answer of an agent with an `outputSchema`, as a value; media and nodes have theirs here, too. */
  readonly output: unknown;
  /** The tool calls, those of runs that work for this one included, in the order in which models asked for them. */
  readonly calls: readonly TestCall[];
  /** Its own events, in order. */
  readonly events: readonly RunEvent[];
  /** What models were asked, by this run and by those that work for it. */
  readonly requests: readonly LlmRequest[];
  /** What a suspended run waits for. Empty for one that has ended. */
  readonly pending: readonly PendingView[];
  /** Grants what waits for a person, only calls of `tool` if it is given, with other arguments if those are given. */
  approve(tool?: string, updatedArgs?: Record<string, unknown>): Promise<TestRun>;
  /** Denies what waits for a person. */
  deny(reason?: string, tool?: string): Promise<TestRun>;
  /** Answers what waits for an answer: a question, or a call that is carried out elsewhere. */
  answer(text: string, tool?: string): Promise<TestRun>;
  /** Goes on with this decision, as `AgentHandle.resume` does: also for a run that waits for money. */
  decide(decision: 'approve' | 'reject' | DecisionInput, by?: string): Promise<TestRun>;
  /** Lets the time of what waits for a person run out, on a `FakeClock`. Throws `validation` where nothing has a time. */
  expire(): Promise<TestRun>;
}

/** An agent in a test. */
export interface TestAgent {
  readonly id: string;
  /** What the runs of this agent go by. */
  readonly clock: Clock;
  /**
   * Runs one input to its end, or until it waits for a person who is not among `people`. A failed run does not throw: see `status`
   * and `error`. Throws `concurrent_run` while another run of this agent is in progress.
   */
  run(input: string | readonly InputPart[], options?: AgentRunOptions): Promise<TestRun>;
}

/**
 * Runs an agent in this process, as `createAgent` does: the real loop with its limits, policies, approvals, costs and events. What
 * is put in its place is the model, time, and what you name of tools, servers and people. Ids of runs are the same in every test
 * run. Throws what `createAgent` throws, and `validation` for a stand-in of what no agent has.
 *
 * @example
 * const agent = testAgent(support, {
 *   model: [calls('lookup_order', { order: '7' }), 'It was shipped.'],
 *   tools: { lookup_order: ({ order }) => ({ order, state: 'shipped' }) },
 * });
 * const run = await agent.run('Where is order 7?');
 * assertCompleted(run, 'It was shipped.');
 * assertCalls(run, [{ name: 'lookup_order', args: { order: '7' } }]);
 */
export function testAgent(agent: Agent | FolderAgent, options: TestAgentOptions): TestAgent {
  return testAgentWith(agent, options);
}

/** What a replay puts in place, beside what a test does. */
export interface ReplaySeams extends AllTools {
  /** Asked about everything that waits for a person, of whatever tool. */
  ask(item: PendingView, runId: string): PersonVerdict | undefined;
  /** Gets the events of the run and of those that work for it. */
  onEvents(events: readonly RunEvent[]): void;
}

/** An agent in a replay. */
export interface ReplayedAgent extends TestAgent {
  run(input: string | readonly InputPart[], options?: TestRequest): Promise<TestRun>;
  /** How a run has ended, also one that works for the run. */
  outcomeOf(runId: string): RunOutcomeView;
}

/** The parts of a request that only a worker takes from a caller. */
interface TestRequest extends AgentRunOptions, Pick<RunRequestInput, 'history' | 'instructions' | 'outputSchema'> {}

/** The same for a replay. */
export function testAgentWith(
  agent: Agent | FolderAgent,
  options: TestAgentOptions,
  replay?: ReplaySeams,
): ReplayedAgent {
  const {
    model,
    clock = new FakeClock({ skipWaits: true }),
    tools = {},
    servers = {},
    people = {},
    ...given
  } = options;
  const watch = new Watch();
  const { agent: tested, ...beside } = 'agent' in agent ? agent : { agent };
  const handle = createAgentWith(tested, {
    ...beside,
    ...given,
    env: given.env ?? {},
    clock,
    provider: watch.provider(providerOf(model, clock)),
    onPending: async (item, runId) => (replay ? replay.ask(item, runId) : await watch.ask(people, item, runId)),
    seams: {
      newRunId: () => watch.newRunId(),
      random: () => 0,
      onEvents(_, events) {
        watch.take(events);
        replay?.onEvents(events);
      },
      ...standInSeams({ tools, servers, all: replay }, watch.tools, clock),
    },
  });
  const test = new Test(handle, clock, watch);
  return {
    id: handle.id,
    clock,
    run: async (input, runOptions) => await test.ended(await handle.run(input, runOptions)),
    outcomeOf: (runId) => outcomeViewOf(handle.state(runId).record),
  };
}

function providerOf(model: Script | LlmProvider, clock: Clock): LlmProvider {
  if (!isProvider(model)) return scriptedModel(model, { clock });
  if ('useClock' in model) (model as ScriptedModel).useClock(clock);
  return model;
}

function isProvider(model: Script | LlmProvider): model is LlmProvider {
  return typeof model === 'object' && 'generate' in model;
}

/** What is seen of the runs of one agent. */
class Watch {
  readonly tools = new ToolLog();
  readonly #events: RunEvent[] = [];
  readonly #requests: LlmRequest[] = [];
  /** By run: calls whose time people let run out. */
  readonly #expiring = new Map<string, Set<string>>();
  #runs = 0;

  newRunId(): string {
    return runIdForExecution('testing', `run ${++this.#runs}`);
  }

  provider(model: LlmProvider): LlmProvider {
    return wrapProvider(model, async (request, onPart, signal) => {
      this.#requests.push({ ...request, messages: [...request.messages] });
      return await model.generate(request, onPart, signal);
    });
  }

  take(events: readonly RunEvent[]): void {
    this.#events.push(...events);
    for (const event of events) this.tools.saw(event);
  }

  async ask(
    people: NonNullable<TestAgentOptions['people']>,
    item: PendingView,
    runId: string,
  ): Promise<PersonVerdict | undefined> {
    const { toolName = '', toolCallId = '' } = item;
    const person = Object.hasOwn(people, toolName) ? people[toolName] : undefined;
    const verdict = typeof person === 'function' ? await person(item) : person;
    if (verdict !== 'expires') return verdict;
    this.#expiring.set(runId, new Set([...(this.#expiring.get(runId) ?? []), toolCallId]));
    return undefined;
  }

  /** Is this a call whose time runs out? Answers yes once. */
  takeExpiring(runId: string, { toolCallId = '' }: PendingView): boolean {
    return this.#expiring.get(runId)?.delete(toolCallId) ?? false;
  }

  /** The run with those that worked for it. */
  of(runId: string) {
    const family = new Set([runId]);
    for (const event of this.#events) {
      if (event.parentRunId !== undefined && family.has(event.parentRunId)) family.add(event.runId);
    }
    const all = this.#events.filter((event) => family.has(event.runId));
    const isAsked = ({ requestId }: LlmRequest) => family.has(requestId.split(':')[0] ?? '');
    return {
      events: all.filter((event) => event.runId === runId),
      calls: callsOf(all, this.tools),
      requests: this.#requests.filter(isAsked),
    };
  }
}

class Test {
  readonly #handle: AgentHandle;
  readonly #clock: Clock;
  readonly #watch: Watch;

  constructor(handle: AgentHandle, clock: Clock, watch: Watch) {
    this.#handle = handle;
    this.#clock = clock;
    this.#watch = watch;
  }

  /** The run as it ended, once everybody who lets a call expire has done so. */
  async ended(outcome: RunOutcomeView): Promise<TestRun> {
    const { runId } = outcome;
    const { events, ...seen } = this.#watch.of(runId);
    const pending = outcome.status === 'suspended' ? pendingOf(events) : [];
    if (pending.some((item) => this.#watch.takeExpiring(runId, item))) return await this.#expire(runId, pending);
    const decide: TestRun['decide'] = async (decision, by) => await this.#resume(runId, decision, by);
    const waiting = (tool: string | undefined) => callsIn(pending, tool, runId);
    return {
      ...outcome,
      output: outcome.result?.output ?? outcome.result?.structured,
      events,
      ...seen,
      pending,
      decide,
      approve: async (tool, updatedArgs) =>
        await decide({ approvals: waiting(tool).map((toolCallId) => ({ toolCallId, granted: true, updatedArgs })) }),
      deny: async (reason, tool) =>
        await decide({ approvals: waiting(tool).map((toolCallId) => ({ toolCallId, granted: false, reason })) }),
      answer: async (answer, tool) =>
        await decide({ answers: waiting(tool).map((toolCallId) => ({ toolCallId, answer })) }),
      expire: async () => await this.#expire(runId, pending),
    };
  }

  async #resume(runId: string, decision: 'approve' | 'reject' | DecisionInput, by?: string): Promise<TestRun> {
    return await this.ended(await this.#handle.resume(runId, decision, by).result);
  }

  /** Moves the clock to the first end of a wait, and has the run look at it. */
  async #expire(runId: string, pending: readonly PendingView[]): Promise<TestRun> {
    const timed = pending.flatMap(({ expiresAt, toolCallId }) =>
      expiresAt === undefined || toolCallId === undefined ? [] : [{ atMs: Date.parse(expiresAt), toolCallId }],
    );
    const [first] = timed.sort((a, b) => a.atMs - b.atMs);
    if (!first) throw new RunError('validation', `nothing that run ${runId} waits for runs out: set approvals.ttlMs`);
    const clock = this.#clock;
    if (!(clock instanceof FakeClock)) throw new RunError('validation', 'only a FakeClock can let an approval run out');
    clock.jump(Math.max(0, first.atMs - clock.now()));
    // A decision that comes too late: the run finds that the time is over, and goes on.
    return await this.#resume(runId, { approvals: [{ toolCallId: first.toolCallId, granted: false }] });
  }
}

function pendingOf(events: readonly RunEvent[]): readonly PendingView[] {
  const suspended = events.findLast((event) => event.type === 'run.suspended');
  return suspended?.pending ?? [];
}

/** The calls that wait, of one tool or of all. Throws `validation` where there is none. */
function callsIn(pending: readonly PendingView[], tool: string | undefined, runId: string): string[] {
  const found = pending.flatMap(({ toolCallId, toolName }) =>
    toolCallId !== undefined && (tool === undefined || toolName === tool) ? [toolCallId] : [],
  );
  if (found.length > 0) return found;
  const waits = pending.map(({ kind, toolName }) => toolName ?? kind).join(', ') || 'nothing';
  const wanted = tool === undefined ? 'a person' : `a person's word about ${tool}`;
  throw new RunError('approval_not_pending', `run ${runId} does not wait for ${wanted}; it waits for ${waits}`);
}
