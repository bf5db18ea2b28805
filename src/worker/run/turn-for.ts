import type { SteeringMessage } from '../../shared/contract/control.ts';
import { defined } from '../../shared/base/defined.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Limits } from '../../shared/contract/agent/agent.ts';
import { unknownAgent } from '../agents/known-names.ts';
import type { LoadedAgent } from '../agents/load-agents.ts';
import type { JournalEntry } from '../../shared/contract/journal/journal.ts';
import { toolCallsOf } from '../../shared/contract/message.ts';
import { resolveChatModel } from '../../shared/contract/agent/models.ts';
import { workOf, type Activity, type RunRequest } from '../../shared/contract/run.ts';
import type { Inbox } from '../../shared/state/run/control/inbox.ts';
import type { RecordPatch } from '../../shared/state/run/run-store.ts';
import type { ChainPast, FallbackChain } from '../llm/fallback-chain.ts';
import { untrustedPreamble } from '../guards/preamble.ts';
import { createToolExecutor } from '../tools/execute/execute.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { TurnDeps, TurnSpec } from '../turn/turn.ts';
import { AttemptGate } from '../admission/attempt-gate.ts';
import { compactionPolicyOf } from '../agents/compaction-models.ts';
import { boundsOf, effectiveLimits } from './limits.ts';
import type { RunDeps, OpenRun } from './open-run.ts';
import { paymentOf } from './payment.ts';
import { suspectWork } from './suspect.ts';
import type { Toolbox } from './toolbox.ts';

type TurnFor =
  | { readonly kind: 'turn'; readonly spec: TurnSpec; readonly deps: TurnDeps }
  | { readonly kind: 'refused'; readonly error: RunError };

/** What was made for a turn before it begins. */
export interface Prepared {
  readonly system: string;
  readonly toolbox: Toolbox;
}

/**
 * What the turn core needs for this run, or why the run cannot be run here. Starts the wall-clock limit. Without what is
 * prepared for it the turn can only be ended.
 */
export function turnFor(run: OpenRun, deps: RunDeps, prepared: Prepared | undefined): TurnFor {
  const found = modelsFor(run, deps);
  if (found instanceof RunError) return { kind: 'refused', error: found };
  const limits = effectiveLimits(found.agent.definition, run.record.request, deps.limitCaps);
  startTimers(run, limits);
  return {
    kind: 'turn',
    spec: { ...specOf(run, found, prepared?.system ?? ''), limits, preferences: deps.preferencesFor(found.agent) },
    deps: {
      ...modelSide(run, found, deps),
      ...runSide(run, deps, prepared?.toolbox),
      prepareStep: found.agent.prepareStep,
      callPolicy: callPolicyOf(run, found.agent, deps.tools.policyOf),
    },
  };
}

/** The agent of a run, and who answers for the model that is asked for. */
interface Models {
  readonly agent: LoadedAgent;
  readonly model: string;
  readonly source: string;
  readonly chain: FallbackChain;
  readonly media: ReturnType<RunDeps['mediaFor']>;
}

function modelsFor(run: OpenRun, deps: Pick<RunDeps, 'chainFor' | 'mediaFor'>): Models | RunError {
  const { request } = run.record;
  const { agent, refusal } = run.assignment;
  if (refusal) return refusal;
  if (!agent) return unknownAgent(request.agent);
  const work = workOf(request);
  const { model, source } = resolveChatModel(
    [
      { model: request.overrides?.model, source: 'override' },
      { model: work.kind === 'node' ? work.node.model : undefined, source: 'node' },
    ],
    agent.definition.model,
  );
  const chain = deps.chainFor(agent, model, pastOf(run.state), run.log);
  if (!chain) return new RunError('internal', `no provider serves model ${model}`);
  const media = deps.mediaFor(agent, model);
  const misplaced = media ? undefined : misplacedMedia(request, model);
  return misplaced ?? { agent, model, source: source === 'fallback' ? 'agent' : source, chain, media };
}

function startTimers({ record, signals, workedMs }: OpenRun, { wallTimeMs }: Limits): void {
  const elapsedMs = workedMs();
  signals.limitWallTime(wallTimeMs, elapsedMs);
  const { maxWorkMs } = record.parent ?? {};
  if (maxWorkMs !== undefined) signals.limitWork(maxWorkMs, elapsedMs);
}

function specOf(
  { record: { runId, request }, assignment }: OpenRun,
  { agent: { definition }, model, source: modelSource, media }: Models,
  system: string,
): Omit<TurnSpec, 'limits'> {
  const { maxOutputTokens, temperature, topP, stop, reasoningEffort, llmFailure, reasoningRetention } = definition;
  return {
    system,
    dataPreamble: definition.untrustedPreamble ? untrustedPreamble(definition.locale) : undefined,
    model,
    modelSource,
    toolFailure: definition.toolFailure ?? 'feed_back',
    deniedTools: assignment.deniedTools,
    llmFailure,
    waitsForBreaker: definition.breaker.onOpen === 'wait',
    metadata: defined({ run_id: runId, agent_name: definition.id, thread_id: request.thread }),
    maxOutputTokens,
    temperature,
    topP,
    stop,
    reasoningEffort,
    outputSchema: media ? undefined : definition.outputSchema,
    outputValidation: definition.outputValidation ?? 'deep',
    outputRepairAttempts: definition.outputRepairAttempts,
    reasoningRetention,
  };
}

/** How the turn reaches its models: what each call must pass, and what keeps the conversation within their windows. */
function modelSide(run: OpenRun, { agent, chain, media }: Models, deps: RunDeps) {
  const { record } = run;
  const { ports } = deps;
  const { media: wanted = {} } = record.request;
  const boundOf = boundsOf(agent.definition, record.request);
  const gate = gateFor(run, agent, deps);
  return {
    chain,
    media: media && {
      ...media,
      wanted,
      most: { count: boundOf('maxMediaCount', wanted.count), seconds: boundOf('maxMediaSeconds', wanted.seconds) },
      keep: (bytes: Uint8Array, mediaType: string) => ports.media.put(record.tenant, bytes, mediaType),
    },
    compaction: compactionFor(run, agent, deps),
    admit: (planned, signal) => gate.admit(planned, signal),
    isDown: (provider, name) => (ports.breakers.states().get(`${provider}/${name}`) ?? 'closed') !== 'closed',
    requestId: (step) => `${record.runId}:step:${step}`,
  } satisfies Partial<TurnDeps>;
}

/** What keeps the conversation of a run within its models' windows; undefined for agents that want it whole. */
function compactionFor(
  { log }: Pick<OpenRun, 'log'>,
  agent: LoadedAgent,
  deps: Pick<RunDeps, 'compactionModelsFor' | 'compactionRequests' | 'metrics'>,
): TurnDeps['compaction'] {
  return compactionPolicyOf(agent, deps.compactionModelsFor(agent), {
    requests: deps.compactionRequests,
    report(outcome, cause) {
      deps.metrics?.compacted(agent.definition.id, outcome);
      if (outcome === 'failed') log.warn({ err: cause }, 'conversation was not compacted');
      if (outcome === 'hook_failed') log.warn({ err: cause }, 'hook after a compaction failed');
    },
  });
}

/** How the turn reaches its run: its events and entries, its tools, and what people and workers ask of it. */
function runSide(run: OpenRun, deps: RunDeps, toolbox: Toolbox | undefined) {
  const { record, writer, signals } = run;
  const { runId, tenant } = record;
  const { clock, redactor, waits, inbox } = deps.ports;
  return {
    clock,
    redactor,
    tools: toolbox
      ? createToolExecutor(toolbox.set, toolbox.context)
      : createToolExecutor([], { runId, tenant, keyFor: () => '' }),
    emit: (body) => writer.emit(body),
    record: recorderOf(run),
    suspect: suspectWork(run, deps),
    heard: run.thread && ((known) => hear(runId, known, inbox)),
    decisionsCame: () => waits.hasDecisions(runId),
    stopRequested() {
      if (signals.cancelRequest?.drain) return 'drain';
      return deps.stopping() ? 'hand_over' : undefined;
    },
  } satisfies Partial<TurnDeps>;
}

/** Writes what the turn has done, with what the record shows of it. */
function recorderOf({ record, state, writer }: OpenRun): TurnDeps['record'] {
  const heard = new Set(state.steered.keys());
  // What it does needs no note where it is the only run of its process.
  const isAlone = record.activity === 'watched';
  return async (entries, activity) => {
    for (const id of entries.flatMap(heardIn)) heard.add(id);
    const noted = isAlone ? undefined : activity;
    // Nothing follows a final answer but the end of the run: both go out as one write.
    if (entries.some(isFinalAnswer)) writer.keep(entries);
    else if (entries.length > 0 || noted) await writer.commit({ entries, patch: progressOf(entries, heard, noted) });
  };
}

/** What the journal has of it is dropped only here, once it is there, so that nothing is lost in between. */
async function hear(
  runId: string,
  known: ReadonlyMap<string, string>,
  inbox: Inbox,
): Promise<readonly SteeringMessage[]> {
  const heard = await inbox.read(runId);
  const taken = heard.filter(({ id }) => known.has(id));
  if (taken.length > 0)
    await inbox.drop(
      runId,
      taken.map(({ id }) => id),
    );
  return heard.filter(({ id }) => !known.has(id));
}

/** Wishes for media that would be lost on a model that answers with text. */
function misplacedMedia({ media }: RunRequest, model: string): RunError | undefined {
  if (!media || (media.modalities?.length === 1 && media.modalities[0] === 'text')) return undefined;
  return new RunError('validation', `model ${model} answers with text: no provider says that it makes media`);
}

/** The rules of the operator and of the agent, then the agent's own function. */
function callPolicyOf(
  { record: { runId, tenant, request } }: OpenRun,
  { llmPolicy: ask, definition }: LoadedAgent,
  policyOf: RunDeps['tools']['policyOf'],
): TurnDeps['callPolicy'] {
  const rules = policyOf?.(definition);
  const policy = rules?.isEmpty ? undefined : rules;
  if (!ask && !policy) return undefined;
  return async (stepNumber, { costMicrocents: spentMicrocents }) => {
    const about = { runId, tenant, agentId: definition.id, stepNumber, spentMicrocents };
    const verdict = policy?.decide({
      subject: 'llm_call',
      eventType: 'llm.call',
      context: about,
      metadata: request.metadata ?? {},
    });
    const { action = 'allow', ruleId, reason = 'a rule denies the model call' } = verdict ?? {};
    // Nobody can be asked about a model call: whatever is not allowed is denied.
    if (action !== 'allow') return { action: 'deny', reason, ruleId };
    const own = await ask?.(about);
    return own?.action === 'deny' ? own : { action: 'allow', ruleId };
  };
}

function gateFor(run: OpenRun, { definition }: LoadedAgent, deps: RunDeps): AttemptGate {
  const { record, state } = run;
  const approvedStep = state.budgetDecision === 'approve' ? state.step + 1 : undefined;
  return new AttemptGate({
    ...paymentOf(run, deps),
    ports: deps.ports,
    weight: deps.tenants.of(record.tenant).weight,
    breaker: definition.breaker,
    approved: (step) => step === approvedStep,
  });
}

/** Where an earlier segment left the chain: a turn that goes on elsewhere must not send reasoning to a stranger. */
function pastOf({ attempts, serving }: TurnState): ChainPast {
  const last = attempts.findLast((attempt) => attempt.outcome !== 'skipped' && !attempt.purpose);
  return { lastProvider: last?.provider, serving };
}

function isFinalAnswer(entry: JournalEntry): boolean {
  return entry.t === 'model_response' && toolCallsOf(entry.message).length === 0;
}

function heardIn(entry: JournalEntry): readonly string[] {
  return entry.t === 'steered' ? entry.messages.map(({ id }) => id) : [];
}

/** What the record shows of a run that is still going on, and what it has to know when the journal is gone. */
function progressOf(
  entries: readonly JournalEntry[],
  heard: ReadonlySet<string>,
  activity: Activity | undefined,
): RecordPatch {
  // The answer that is sent back was kept for this write.
  const answered = entries.findLast((entry) => entry.t === 'model_response' || entry.t === 'repair');
  const isHeard = entries.some(({ t }) => t === 'steered');
  return defined({ steps: answered?.step, inboxRead: isHeard ? [...heard] : undefined, activity });
}
