import type { Clock } from '../../shared/base/clock.ts';
import { deadlineOf } from '../../shared/contract/deadline.ts';
import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { loopGuardOf } from '../../shared/contract/agent/loop-guard.ts';
import type { Limits } from '../../shared/contract/agent/agent.ts';
import { unknownAgent } from '../agents/known-names.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';
import type { JournalEntry } from '../../shared/contract/journal/journal.ts';
import { toolCallsOf } from '../../shared/contract/message.ts';
import { resolveChatModel } from '../../shared/contract/agent/models.ts';
import { workOf, type Activity, type RunRequest } from '../../shared/contract/run.ts';
import type { Inbox } from '../../shared/state/run/control/inbox.ts';
import { bytesOfFile } from '../../shared/state/inputs/file-bytes.ts';
import type { RecordPatch } from '../../shared/state/run/commit.ts';
import type { ChainPast, FallbackChain } from '../llm/fallback-chain.ts';
import { untrustedPreamble } from '../prompt/system-prompt.ts';
import { createToolExecutor } from '../tools/execute/execute.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { TurnDeps, TurnSpec } from '../turn/turn.ts';
import { AttemptGate } from '../admission/attempt-gate.ts';
import { compactionPolicyOf } from '../agents/preferred-models.ts';
import { protocolModeOf } from './leak-watch.ts';
import { boundsOf, closesAtLimit, effectiveLimits, smallerOf } from './limits.ts';
import type { RunDeps, OpenRun } from './run-context.ts';
import { paymentOf } from './payment.ts';
import { suspectWork } from './suspect.ts';
import type { Toolbox } from './toolbox.ts';

/** The parts of a turn that are made before it begins. */
export interface Prepared {
  readonly system: string;
  readonly toolbox: Toolbox;
}

/**
 * What the turn core needs for this run, or why the run cannot be run here. Starts the wall-clock limit. Without `prepared`
 * the turn can only end.
 */
export function turnFor(
  run: OpenRun,
  deps: RunDeps,
  prepared: Prepared | undefined,
): { readonly spec: TurnSpec; readonly deps: TurnDeps } | RunError {
  const found = modelsFor(run, deps);
  if (found instanceof RunError) return found;
  const { definition } = found.agent;
  if (run.record.request.compact && !definition.compaction)
    return new RunError('validation', `compact: agent ${definition.id} has no \`compaction\``);
  const limits = effectiveLimits(definition, run.record.request, deps.limitCaps);
  const closingAnswer = closesAtLimit(definition, run.record.request) && !found.media;
  startTimers(run, limits, closingAnswer, deps.ports.clock);
  return {
    spec: {
      ...specOf(run, found, prepared?.system ?? ''),
      limits,
      closingAnswer,
      loopGuard: loopGuardOf(definition.loopGuard, deps.limitCaps.loopGuard ?? false),
      preferences: deps.preferencesFor(found.agent),
      readFile: (file) => bytesOfFile(run.record.tenant, file, deps.ports),
    },
    deps: {
      ...modelSide(run, found, deps),
      ...runSide(run, deps, prepared?.toolbox),
      prepareStep: found.agent.prepareStep,
      callPolicy: callPolicyOf(run, found.agent, deps.tools.policyOf),
    },
  };
}

/** The agent of a run, and what serves the model that is asked for. */
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
  const unserved = media ? unreadFiles(run.state, model) : unservedMedia(request, model);
  return unserved ?? { agent, model, source: source === 'fallback' ? 'agent' : source, chain, media };
}

function startTimers(
  { record, signals, workedMs }: OpenRun,
  { wallTimeMs }: Limits,
  closes: boolean,
  clock: Pick<Clock, 'now'>,
): void {
  const elapsedMs = workedMs();
  signals.limitWallTime(wallTimeMs, elapsedMs, closes);
  const { maxWorkMs } = record.parent ?? {};
  if (maxWorkMs !== undefined) signals.limitWork(maxWorkMs, elapsedMs, closes);
  const atMs = closes ? deadlineOf(record) : undefined;
  if (atMs !== undefined) signals.landBeforeDeadline(atMs, atMs - Date.parse(record.createdAt), atMs - clock.now());
}

function specOf(
  { record: { runId, request }, assignment }: OpenRun,
  { agent: { definition }, model, source: modelSource, media }: Models,
  system: string,
): Omit<TurnSpec, 'limits'> {
  const { temperature, topP, stop, reasoningEffort, llmFailure, reasoningRetention } = definition;
  return {
    system,
    dataPreamble: definition.untrustedPreamble ? untrustedPreamble(definition.locale) : undefined,
    model,
    modelSource,
    people: definition.interaction === 'headless' ? undefined : definition.approvals,
    locale: definition.locale,
    toolFailure: definition.toolFailure ?? 'feed_back',
    subagentFailure: definition.subagentFailure ?? 'feed_back',
    deniedTools: assignment.deniedTools,
    llmFailure,
    waitsForBreaker: definition.breaker.onOpen === 'wait',
    metadata: defined({ run_id: runId, agent_name: definition.id, thread_id: request.thread }),
    maxOutputTokens: smallerOf(definition.maxOutputTokens, request.overrides?.maxOutputTokens),
    temperature,
    topP,
    stop,
    reasoningEffort,
    outputSchema: media ? undefined : definition.outputSchema,
    outputValidation: definition.outputValidation ?? 'deep',
    outputRepairAttempts: definition.outputRepairAttempts,
    reasoningRetention,
    commentary: definition.commentary === 'pass' ? undefined : definition.commentary,
    protocol: protocolModeOf(definition),
  };
}

/** The models of the turn: their chain, the gate before each attempt, and the compaction. */
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
    landing: run.signals.landing,
    isCapped: ports.ledger.isCapped(run.accounts),
    admit: (planned, signal) => gate.admit(planned, signal),
    isDown: (provider, name) => (ports.breakers.states().get(`${provider}/${name}`) ?? 'closed') !== 'closed',
    requestId: (step) => `${record.runId}:step:${step}`,
  } satisfies Partial<TurnDeps>;
}

/** The compaction of a conversation; undefined for agents without one. */
function compactionFor(
  { log, record }: Pick<OpenRun, 'log' | 'record'>,
  agent: LoadedAgent,
  deps: Pick<RunDeps, 'compactionModelsFor' | 'compactionRequests' | 'metrics'>,
): TurnDeps['compaction'] {
  return compactionPolicyOf(agent, deps.compactionModelsFor(agent), {
    requests: deps.compactionRequests,
    compactsFirst: record.request.compact,
    report(outcome, cause) {
      deps.metrics?.compacted(agent.definition.id, outcome);
      if (outcome === 'failed') log.warn({ err: cause }, 'conversation was not compacted');
      if (outcome === 'hook_failed') log.warn({ err: cause }, 'hook after a compaction failed');
    },
  });
}

/** The run of the turn: its events and entries, its tools, and the requests of people and workers. */
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
    suspect: suspectWork(run, deps.suspects),
    readInbox: run.thread && ((known) => readInbox(runId, known, inbox)),
    decisionsCame: () => waits.hasDecisions(runId),
    stopRequested() {
      if (signals.cancelRequest?.drain) return 'drain';
      return deps.stopping() ? 'hand_over' : undefined;
    },
  } satisfies Partial<TurnDeps>;
}

/** Journals what the turn has done, and its progress in the record. */
function recorderOf({ record, state, writer }: OpenRun): TurnDeps['record'] {
  const read = new Set(state.steered.keys());
  // The activity is noted only where the process has other runs.
  const isAlone = record.activity === 'watched';
  return async (entries, activity) => {
    for (const id of entries.flatMap(steeredIn)) read.add(id);
    const noted = isAlone ? undefined : activity;
    // Only the end of the run follows a final answer: one write takes both.
    if (entries.some(isFinalAnswer)) writer.writeWithCommit(entries);
    else if (entries.length > 0 || noted) await writer.commit({ entries, patch: progressOf(entries, read, noted) });
  };
}

/** The unread messages of the inbox. Drops those that the journal has: none is lost in between. */
async function readInbox(runId: string, known: ReadonlyMap<string, string>, inbox: Inbox) {
  const messages = await inbox.read(runId);
  const journaled = messages.filter(({ id }) => known.has(id));
  if (journaled.length > 0)
    await inbox.drop(
      runId,
      journaled.map(({ id }) => id),
    );
  return messages.filter(({ id }) => !known.has(id));
}

/** A model that makes media is given the text of the message alone. */
function unreadFiles({ messages }: TurnState, model: string): RunError | undefined {
  const asked = messages.findLast((message) => message.role === 'user');
  if (!asked?.files) return undefined;
  return new RunError(
    'validation',
    `model ${model} makes media and reads no files: ask an agent that answers with text`,
  );
}

/** Refuses a request for media to a model that answers with text. */
function unservedMedia({ media }: RunRequest, model: string): RunError | undefined {
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
    // A model call has no approval: what is not allowed is denied.
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

/** Where an earlier segment left the chain: one provider's reasoning must not be sent to another. */
function pastOf({ attempts, serving }: TurnState): ChainPast {
  const last = attempts.findLast((attempt) => attempt.outcome !== 'skipped' && !attempt.purpose);
  return { lastProvider: last?.provider, serving };
}

function isFinalAnswer(entry: JournalEntry): boolean {
  return entry.t === 'model_response' && toolCallsOf(entry.message).length === 0;
}

function steeredIn(entry: JournalEntry): readonly string[] {
  return entry.t === 'steered' ? entry.messages.map(({ id }) => id) : [];
}

/** The progress of a running run, and what its record must keep when the journal is dropped. */
function progressOf(entries: readonly JournalEntry[], read: ReadonlySet<string>, activity?: Activity): RecordPatch {
  // The answer that needs a repair was kept for this write.
  const response = entries.findLast((entry) => entry.t === 'model_response' || entry.t === 'repair');
  const isSteered = entries.some(({ t }) => t === 'steered');
  return defined({ steps: response?.step, inboxRead: isSteered ? [...read] : undefined, activity });
}
