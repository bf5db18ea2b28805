import { defined } from '../../base/collections.ts';
import type { Redactor } from '../../base/redact.ts';
import { isRecord } from '../../base/json.ts';
import type { RunEvent } from '../event.ts';
import type { JournalEntry } from '../journal/journal.ts';
import type { Message } from '../message.ts';
import { messagesOf } from '../request/history.ts';
import { filesOfRun, isTerminalStatus, type RunRecord } from '../run.ts';
import type { ArchivedRun } from './archived-run.ts';
import { courseOf } from './course.ts';
import { addInnerResults, EventFacts } from './event-facts.ts';
import type { CallView, ChildView, RunSteps, ShownMessage } from './run-steps.ts';
import { shownMessage } from './shown.ts';
import { StepDrafts, type CallDraft } from './step-drafts.ts';

/** All that is known of a run, wherever it was read. */
export interface RunSource extends Pick<ArchivedRun, 'record' | 'truncated'> {
  readonly journal: readonly JournalEntry[];
  /** With or without deltas. */
  readonly events: readonly RunEvent[];
  /** Of a run that was redriven: those from before, as far as they are known. */
  readonly earlier?: readonly RunEvent[] | undefined;
  /** What their own records say. */
  readonly children: readonly ChildView[];
  /** Where the log has no deltas: when the first token of each step came, by the number of the step. */
  readonly firstTokens?: ArchivedRun['firstTokens'] | undefined;
  /** The conversation before the first answer. Absent: what the request says is all of it. */
  readonly beginning?: readonly Message[] | undefined;
}

/** The steps of a run, and everything else that one page about it shows. Never throws for a journal that makes no sense: it shows what it can. */
export function stepsOf(
  { record, journal, events: log, earlier = [], children, beginning, firstTokens = {}, truncated }: RunSource,
  { source, redactor }: { readonly source: RunSteps['source']; readonly redactor: Redactor },
): RunSteps {
  const events = [...earlier, ...log];
  const drafts = new StepDrafts(record.request.agent, redactor);
  for (const entry of journal) drafts.add(entry);
  const facts = new EventFacts(drafts, redactor);
  for (const event of events) facts.add(event);
  for (const [call, entries] of drafts.inner) addInnerResults(call, entries.values(), redactor);
  for (const step of drafts.steps) {
    const first = firstTokens[step.stepNumber];
    // The archive has no deltas: what else it has of an answer may have come later.
    if (first !== undefined) step.firstTokenAt = first;
    for (const call of step.calls) timeOf(call);
  }
  const { runId, status, error, createdAt: queuedAt, startedAt, endedAt } = record;
  const initial = [...systemOf(drafts.prompt, redactor), ...beginningOf(record, beginning, redactor)];
  const isCut = truncated ?? isMissing({ record, journal, events });
  return defined({
    runId,
    status,
    source,
    initial,
    steps: drafts.steps,
    ...courseOf(record, journal, events),
    children: childrenOf(drafts, facts, children),
    orchestration: drafts.orchestration,
    policy: facts.policy,
    error,
    queuedAt,
    startedAt,
    endedAt,
    truncated: isCut ? true : undefined,
  });
}

/** The runs that work for this one, as far as it knows of them. */
export function childIdsOf(journal: readonly JournalEntry[], events: readonly RunEvent[]): readonly string[] {
  const ids = new Set<string>();
  for (const entry of journal) {
    if (entry.t === 'suspended') {
      for (const { kind, id } of entry.asks ?? []) if (kind === 'child') ids.add(id);
      for (const id of entry.children ?? []) ids.add(id);
    }
    if (entry.t !== 'decided') continue;
    for (const decision of entry.decisions ?? []) {
      if (decision.kind !== 'child') continue;
      ids.add(decision.id);
      if (decision.next !== undefined) ids.add(decision.next);
    }
  }
  for (const event of events) {
    if (event.type === 'agent.fanout.spawned') for (const id of event.children) ids.add(id);
    // Of a child's own children the child knows.
    if (event.type === 'subagent.event' && isOwnChild(event)) ids.add(event.childRunId);
  }
  return [...ids];
}

function isOwnChild({ event }: Extract<RunEvent, { type: 'subagent.event' }>): boolean {
  return !(isRecord(event) && event['type'] === 'subagent.event');
}

/** What a run shows of itself to the run that it works for. */
export function childViewOf(record: RunRecord): ChildView {
  const { runId, status, request, startedAt, endedAt, costMicrocents } = record;
  return defined({ runId, agent: request.agent, status, startedAt, endedAt, costMicrocents });
}

function childrenOf(drafts: StepDrafts, facts: EventFacts, known: readonly ChildView[]): ChildView[] {
  const ids = new Set([...drafts.childCalls.keys(), ...facts.childAgents.keys(), ...known.map(({ runId }) => runId)]);
  return [...ids].map((runId) => {
    const end = drafts.childEnds.get(runId);
    const ended = end && { status: end.status, endedAt: end.at, costMicrocents: end.costMicrocents };
    const own = known.find((child) => child.runId === runId);
    const about = { agent: facts.childAgents.get(runId), toolCallId: drafts.childCalls.get(runId) };
    return defined({ ...about, ...ended, ...own, runId });
  });
}

function systemOf(system: string | undefined, redactor: Redactor): ShownMessage[] {
  return system === undefined ? [] : [{ role: 'system', content: redactor.text(system) }];
}

/** The conversation before the first answer, what was asked last. */
function beginningOf(record: RunRecord, messages: readonly Message[] | undefined, redactor: Redactor): ShownMessage[] {
  const { request, parent } = record;
  const question = defined({ role: 'user', content: request.input, files: filesOfRun(record) });
  const said = messages ?? [...(parent?.history ?? messagesOf(request.history ?? [])), question];
  return said.map((message) => shownMessage(message, redactor));
}

/** How long a call took, where the event of its end does not say. */
function timeOf(call: CallDraft | CallView['inner'][number]): void {
  if (call.durationMs !== undefined || call.startedAt === undefined || call.endedAt === undefined) return;
  call.durationMs = Math.max(0, Date.parse(call.endedAt) - Date.parse(call.startedAt));
}

/** Has the log lost its beginning, or is there no journal of steps that were made? */
function isMissing({ record, journal, events }: Pick<RunSource, 'record' | 'journal' | 'events'>): boolean {
  const began = record.startedAt !== undefined;
  const [first] = events;
  const isWholeLog = first?.sequenceNumber === 1;
  const isWholeJournal = journal.length > 0 || record.steps === 0;
  return (began || isTerminalStatus(record.status)) && !(isWholeLog && isWholeJournal);
}
