import type { SteeringMessage } from '../../shared/contract/control.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { JournalEntry } from '../../shared/contract/journal/journal.ts';
import { toolCallsOf } from '../../shared/contract/message.ts';
import { resolveChatModel } from '../../shared/contract/agent/models.ts';
import type { Activity, RunRequest } from '../../shared/contract/run.ts';
import type { Inbox } from '../../shared/state/run/control/inbox.ts';
import type { RecordPatch } from '../../shared/state/run/run-store.ts';
import type { ChainPast } from '../llm/fallback-chain.ts';
import { untrustedPreamble } from '../guards/preamble.ts';
import { createToolExecutor } from '../tools/execute/execute.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { TurnDeps, TurnSpec } from '../turn/turn.ts';
import { AttemptGate } from '../admission/attempt-gate.ts';
import { cashierFor } from './cashier-for.ts';
import { memoryFor } from './memory-for.ts';
import { effectiveBounds, effectiveLimits } from './limits.ts';
import { unknownAgent, type OpenRun, type RunDeps } from './open.ts';
import { suspectWork } from './suspect.ts';
import type { Toolbox } from './toolbox.ts';

type TurnFor =
  | { readonly kind: 'turn'; readonly spec: TurnSpec; readonly deps: TurnDeps }
  | { readonly kind: 'refused'; readonly error: RunError };

/**
 * What the turn core needs for this run, or why the run cannot be run here. Starts the wall-clock limit. Without a toolbox
 * the turn can only be ended.
 */
export function turnFor(run: OpenRun, deps: RunDeps, toolbox: Toolbox | undefined): TurnFor {
  const { record, agent, writer, signals, clock, redactor } = run;
  const { request, runId } = record;
  if (run.refusal) return { kind: 'refused', error: run.refusal };
  if (!agent) return { kind: 'refused', error: unknownAgent(request.agent) };
  const { definition } = agent;
  const { model, source } = resolveChatModel(
    [
      { model: request.overrides?.model, source: 'override' },
      { model: request.node?.model, source: 'node' },
    ],
    definition.model,
  );
  const chain = deps.chainFor(agent, model, pastOf(run.state), run.log);
  if (!chain) return { kind: 'refused', error: new RunError('internal', `no provider serves model ${model}`) };
  const media = deps.mediaFor(agent, model);
  const misplaced = media ? undefined : misplacedMedia(request, model);
  if (misplaced) return { kind: 'refused', error: misplaced };
  const limits = effectiveLimits(definition, request, deps.limitCaps);
  const elapsedMs = run.workedMs();
  signals.limitWallTime(limits.wallTimeMs, elapsedMs);
  const { maxWorkMs } = record.parent ?? {};
  if (maxWorkMs !== undefined) signals.limitWork(maxWorkMs, elapsedMs);
  const gate = gateFor(run, deps);
  const suspect = suspectWork(run, deps);
  // What it does needs no note where it is the only run of its process.
  const isAlone = record.activity === 'watched';
  const heard = new Set(run.state.steered.keys());
  return {
    kind: 'turn',
    spec: {
      system: run.system ?? '',
      ...(definition.untrustedPreamble && { dataPreamble: untrustedPreamble(definition.locale) }),
      model,
      modelSource: source === 'fallback' ? 'agent' : source,
      limits,
      toolFailure: definition.toolFailure ?? 'feed_back',
      ...(run.deniedTools && { deniedTools: run.deniedTools }),
      llmFailure: definition.llmFailure,
      waitsForBreaker: definition.breaker.onOpen === 'wait',
      metadata: { run_id: runId, agent_name: definition.id, ...(request.thread && { thread_id: request.thread }) },
      ...(definition.maxOutputTokens !== undefined && { maxOutputTokens: definition.maxOutputTokens }),
      ...(definition.temperature !== undefined && { temperature: definition.temperature }),
      ...(definition.topP !== undefined && { topP: definition.topP }),
      ...(definition.stop && { stop: definition.stop }),
      ...(definition.reasoningEffort && { reasoningEffort: definition.reasoningEffort }),
      ...(definition.outputSchema && !media && { outputSchema: definition.outputSchema }),
      outputValidation: definition.outputValidation ?? 'deep',
      outputRepairAttempts: definition.outputRepairAttempts,
      reasoningRetention: definition.reasoningRetention,
      preferences: deps.preferencesFor(agent),
    },
    deps: {
      chain,
      ...(media && {
        media: {
          ...media,
          wanted: request.media ?? {},
          most: effectiveBounds(definition, request),
          keep: (bytes, mediaType) => deps.ports.media.put(record.tenant, bytes, mediaType),
        },
      }),
      clock,
      redactor,
      tools: toolbox
        ? createToolExecutor(toolbox.set, toolbox.context)
        : createToolExecutor([], { runId, tenant: record.tenant, keyFor: () => '' }),
      decisionsCame: () => deps.ports.waits.hasDecisions(runId),
      ...(run.thread && { heard: (known) => hear(runId, known, deps.ports.inbox) }),
      emit: (body) => writer.emit(body),
      record: async (entries, activity) => {
        for (const id of entries.flatMap(heardIn)) heard.add(id);
        const noted = isAlone ? undefined : activity;
        // Nothing follows a final answer but the end of the run: both go out as one write.
        if (entries.some(isFinalAnswer)) writer.keep(entries);
        else if (entries.length > 0 || noted) await writer.commit({ entries, ...progressOf(entries, heard, noted) });
      },
      ...(suspect && { suspect }),
      ...callPolicyOf(run, deps.tools.policyOf),
      ...(agent.prepareStep && { prepareStep: agent.prepareStep }),
      ...memoryFor(run, agent, deps),
      admit: (planned, signal) => gate.admit(planned, signal),
      isDown: (provider, name) => (deps.ports.breakers.states().get(`${provider}/${name}`) ?? 'closed') !== 'closed',
      requestId: (step) => `${runId}:step:${step}`,
      stopRequested: () => {
        if (signals.cancelRequest?.drain) return 'drain';
        return deps.stopping() ? 'hand_over' : undefined;
      },
    },
  };
}

/** What the journal has of it is dropped only here, once it is there, so that nothing is lost in between. */
async function hear(
  runId: string,
  known: ReadonlyMap<string, string>,
  inbox: Inbox,
): Promise<readonly SteeringMessage[]> {
  const heard = await inbox.heard(runId);
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
  { agent, record }: OpenRun,
  policyOf: RunDeps['tools']['policyOf'],
): Pick<TurnDeps, 'callPolicy'> {
  if (!agent) return {};
  const { llmPolicy: ask, definition } = agent;
  const rules = policyOf?.(definition);
  const policy = rules?.isEmpty ? undefined : rules;
  if (!ask && !policy) return {};
  const { runId, tenant, request } = record;
  return {
    async callPolicy(stepNumber, { costMicrocents: spentMicrocents }) {
      const about = { runId, tenant, agentId: definition.id, stepNumber, spentMicrocents };
      const verdict = policy?.decide({
        subject: 'llm_call',
        eventType: 'llm.call',
        context: about,
        metadata: request.metadata ?? {},
      });
      const { action = 'allow', ruleId, reason } = verdict ?? {};
      // Nobody can be asked about a model call: whatever is not allowed is denied.
      if (action !== 'allow')
        return {
          action: 'deny',
          reason: reason ?? 'a rule denies the model call',
          ...(ruleId !== undefined && { ruleId }),
        };
      const own = await ask?.(about);
      return own?.action === 'deny' ? own : { action: 'allow', ...(ruleId !== undefined && { ruleId }) };
    },
  };
}

function gateFor(run: OpenRun, deps: RunDeps): AttemptGate {
  const { record, agent, state } = run;
  const approvedStep = state.budgetDecision === 'approve' ? state.step + 1 : undefined;
  return new AttemptGate({
    ...cashierFor(run, deps),
    ports: deps.ports,
    weight: deps.tenants.of(record.tenant).weight,
    breaker: agent?.definition.breaker ?? { failureThreshold: 5, cooldownMs: 30_000 },
    approved: (step) => step === approvedStep,
  });
}

/** Where an earlier segment left the chain: a turn that goes on elsewhere must not send reasoning to a stranger. */
function pastOf({ attempts, serving }: TurnState): ChainPast {
  const last = attempts.findLast((attempt) => attempt.outcome !== 'skipped' && !attempt.purpose);
  return { ...(last && { lastProvider: last.provider }), ...(serving && { serving }) };
}

function isFinalAnswer(entry: JournalEntry): boolean {
  return entry.t === 'answered' && toolCallsOf(entry.message).length === 0;
}

function heardIn(entry: JournalEntry): readonly string[] {
  return entry.t === 'steered' ? entry.messages.map(({ id }) => id) : [];
}

/** What the record shows of a run that is still going on, and what it has to know when the journal is gone. */
function progressOf(
  entries: readonly JournalEntry[],
  heard: ReadonlySet<string>,
  activity: Activity | undefined,
): { patch?: RecordPatch } {
  // The answer that is sent back was kept for this write.
  const answered = entries.findLast((entry) => entry.t === 'answered' || entry.t === 'repair');
  const isHeard = entries.some(({ t }) => t === 'steered');
  if (!answered && !isHeard && !activity) return {};
  return {
    patch: {
      ...(answered && { steps: answered.step }),
      ...(isHeard && { heard: [...heard] }),
      ...(activity && { activity }),
    },
  };
}
