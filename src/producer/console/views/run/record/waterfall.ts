import type {
  CallView,
  ChildView,
  OrchestrationStepView,
  RunSteps,
  SegmentView,
  StepView,
  WaitView,
} from '../../../../../shared/contract/archive/run-steps.ts';
import type { Attempt } from '../../../../../shared/contract/journal/journal.ts';
import type { RunEvent } from '../../../../../shared/contract/event.ts';

export type RowKind =
  | 'queue'
  | 'segment'
  | 'recovery'
  | 'wait'
  | 'step'
  | 'attempt'
  | 'compaction'
  | 'call'
  | 'child'
  | 'answer';

/** How something went, for its mark and its colour. `open`: it goes on. */
export type Tone = 'open' | 'good' | 'bad' | 'wait' | 'plain';

/** One line of the timeline: what it was, and from when to when. */
export interface Row {
  /** The same in every reading of the same run. */
  readonly id: string;
  readonly kind: RowKind;
  readonly depth: number;
  readonly label: string;
  readonly note: string;
  readonly tone: Tone;
  readonly fromMs: number;
  readonly toMs: number;
  readonly costMicrocents: number;
  /** The place on the page that shows all of it. */
  readonly anchor: string | undefined;
  /** Of a child: the run that it is. */
  readonly runId: string | undefined;
}

export interface Waterfall {
  readonly fromMs: number;
  readonly toMs: number;
  /** A tree from top to bottom: what belongs to a row follows it, one level deeper. */
  readonly rows: readonly Row[];
}

export interface WaterfallSource {
  readonly steps: RunSteps;
  /** What is known of its events. They say when attempts were; without them attempts stand one after another. */
  readonly events: readonly RunEvent[];
  readonly nowMs: number;
  /** Steps of children that were opened, by their run. */
  readonly opened: ReadonlyMap<string, RunSteps>;
}

/** What happened in a run, and when: its wait in the queue, then its time on workers and between them. */
export function waterfallOf(source: WaterfallSource): Waterfall {
  const rows = rowsOf(source, 0);
  const fromMs = timeOf(source.steps.queuedAt) ?? rows[0]?.fromMs ?? source.nowMs;
  const toMs = rows.reduce((latest, row) => Math.max(latest, row.toMs), fromMs);
  return { fromMs, toMs: Math.max(toMs, fromMs + 1), rows };
}

/** The rows that are seen while these are closed. */
export function visibleRows(rows: readonly Row[], closed: ReadonlySet<string>): readonly Row[] {
  const seen: Row[] = [];
  let hiddenBelow = Number.POSITIVE_INFINITY;
  for (const row of rows) {
    if (row.depth > hiddenBelow) continue;
    hiddenBelow = closed.has(row.id) ? row.depth : Number.POSITIVE_INFINITY;
    seen.push(row);
  }
  return seen;
}

/** The rows that others belong to. */
export function parentsIn(rows: readonly Row[]): ReadonlySet<string> {
  return new Set(rows.filter((row, index) => (rows[index + 1]?.depth ?? 0) > row.depth).map(({ id }) => id));
}

interface Facts extends WaterfallSource {
  readonly endMs: number;
  readonly isOver: boolean;
  /** When each attempt ended, by the id of its request. */
  readonly attemptEnds: ReadonlyMap<string, number>;
}

function rowsOf(source: WaterfallSource, depth: number): Row[] {
  const { steps, events, nowMs } = source;
  const endedMs = timeOf(steps.endedAt);
  const facts: Facts = {
    ...source,
    endMs: endedMs ?? nowMs,
    isOver: endedMs !== undefined,
    attemptEnds: new Map(
      events.flatMap((event) => (event.type === 'llm.call' ? [[event.requestId, Date.parse(event.timestamp)]] : [])),
    ),
  };
  const stays = steps.segments.map((segment, index) => stayRows(segment, index, facts, depth));
  const placed = new Set(stays.flatMap(({ stepNumbers }) => stepNumbers));
  const homeless = steps.steps.filter((step) => !placed.has(step)).map((step) => stepRows(step, facts, depth));
  const groups = [
    queueRows(facts, depth),
    ...stays.map(({ rows }) => rows),
    ...steps.waits.map((wait, index) => waitRows(wait, index, facts, depth)),
    ...homeless,
    ...steps.orchestration.map((answer) => [answerRow(answer, facts, depth)]),
    ...strayChildren(steps).map((child) => childRows(child, facts, depth)),
  ];
  const first = (group: readonly Row[]) => group[0]?.fromMs ?? 0;
  return groups
    .filter((group) => group.length > 0)
    .sort((a, b) => first(a) - first(b))
    .flat();
}

function queueRows({ steps, endMs }: Facts, depth: number): Row[] {
  const fromMs = timeOf(steps.queuedAt);
  if (fromMs === undefined) return [];
  const startedMs = timeOf(steps.startedAt);
  return [
    row({
      id: `${steps.runId}:queue`,
      kind: 'queue',
      depth,
      label: 'waits in the queue',
      tone: startedMs === undefined && !steps.endedAt ? 'open' : 'plain',
      fromMs,
      toMs: startedMs ?? endMs,
    }),
  ];
}

/** A stay on a worker with the steps that began in it; before one that continues a lost one, who was lost. */
function stayRows(segment: SegmentView, index: number, facts: Facts, depth: number) {
  const { steps } = facts;
  const fromMs = Date.parse(segment.from);
  const toMs = timeOf(segment.to) ?? facts.endMs;
  const isLast = index === steps.segments.length - 1;
  const nextFromMs = timeOf(steps.segments[index + 1]?.from) ?? Number.POSITIVE_INFINITY;
  const mine = steps.steps.filter((step) => {
    const startedMs = timeOf(step.startedAt) ?? fromMs;
    return (startedMs >= fromMs || index === 0) && (startedMs < nextFromMs || isLast);
  });
  const before = steps.segments[index - 1];
  const rows = [
    ...(segment.recoveredFrom === undefined ? [] : [recoveryRow(segment, before, facts, depth)]),
    row({
      id: `${steps.runId}:segment:${index}`,
      kind: 'segment',
      depth,
      label: `on ${segment.worker ?? 'a worker'}`,
      note: stayNotes[segment.end ?? 'open'],
      tone: segment.end === 'lost' ? 'bad' : segment.end === undefined && !facts.isOver ? 'open' : 'plain',
      fromMs,
      toMs,
    }),
    ...mine.flatMap((step) => stepRows(step, facts, depth + 1)),
  ];
  return { rows, stepNumbers: mine };
}

const stayNotes = {
  lost: 'the worker died',
  handed_over: 'handed over',
  suspended: 'left to wait',
  ended: '',
  open: '',
} as const;

function recoveryRow(segment: SegmentView, before: SegmentView | undefined, { steps }: Facts, depth: number): Row {
  const atMs = Date.parse(segment.from);
  const wasLost = before?.end !== 'handed_over';
  const who = before?.worker ?? 'the worker before';
  const checkpoint = segment.recoveredFrom ?? 0;
  const kept = checkpoint === 1 ? '1 finished step' : `${checkpoint} finished steps`;
  return row({
    id: `${steps.runId}:recovery:${segment.from}`,
    kind: 'recovery',
    depth,
    label: wasLost ? `${who} died` : `${who} handed the run over`,
    note: `${segment.worker ?? 'another worker'} goes on after ${kept}`,
    tone: wasLost ? 'bad' : 'plain',
    fromMs: timeOf(before?.to) ?? atMs,
    toMs: atMs,
  });
}

function waitRows(wait: WaitView, index: number, facts: Facts, depth: number): Row[] {
  const { steps } = facts;
  return [
    row({
      id: `${steps.runId}:wait:${index}`,
      kind: 'wait',
      depth,
      label: waitLabels[wait.reason],
      note: [wait.waitsFor.map(({ id, toolName }) => toolName ?? id).join(', '), wait.summary, byWhom(wait.by)]
        .filter(Boolean)
        .join(' · '),
      tone: wait.to === undefined && !facts.isOver ? 'open' : 'wait',
      fromMs: Date.parse(wait.from),
      toMs: timeOf(wait.to) ?? facts.endMs,
    }),
  ];
}

/** Who decided, in words. */
export function byWhom(people: readonly string[]): string {
  return people.length === 0 ? '' : `by ${people.join(' and ')}`;
}

/** What a wait is for, in words. */
export const waitLabels: Readonly<Record<WaitView['reason'], string>> = {
  approval: 'waits for an approval',
  budget: 'waits for money',
  user_input: 'waits for an answer',
  media: 'waits for media',
  child: 'waits for other runs',
  unknown_outcome: 'waits for a person: did the call take effect?',
  provider_limit: 'waits for the provider',
  retry: 'waits before it tries again',
  redrive: 'failed, until it was redriven',
};

function stepRows(step: StepView, facts: Facts, depth: number): Row[] {
  const { runId } = facts.steps;
  const fromMs = timeOf(step.startedAt) ?? facts.endMs;
  const attempts = step.attempts.filter(({ purpose }) => purpose === undefined);
  const failed = attempts.length > 0 && attempts.every(({ outcome }) => outcome !== 'succeeded');
  const isOpen = step.endedAt === undefined && !facts.isOver;
  const inner = [
    ...attemptRows(step, facts, depth + 1),
    ...step.calls.flatMap((call) => callRows(call, step.stepNumber, facts, depth + 1)),
  ];
  const toMs = timeOf(step.endedAt) ?? Math.max(isOpen ? facts.endMs : fromMs, ...inner.map((each) => each.toMs));
  return [
    row({
      id: `${runId}:step:${step.stepNumber}`,
      kind: 'step',
      depth,
      label: `step ${step.stepNumber}`,
      note: [step.model, countOf(step.calls.length, 'call')].filter(Boolean).join(' · '),
      tone: isOpen ? 'open' : failed ? 'bad' : 'good',
      fromMs,
      toMs,
      costMicrocents: step.costMicrocents,
      anchor: anchorOfStep(runId, step.stepNumber),
    }),
    ...inner,
  ];
}

/** The place of a step on the page. */
export function anchorOfStep(runId: string, stepNumber: number): string {
  return `step-${runId}-${stepNumber}`;
}

/** The place of a call on the page. An id of a call is a model's own word, and some models begin anew in every step. */
export function anchorOfCall(runId: string, stepNumber: number, toolCallId: string): string {
  return `call-${runId}-${stepNumber}-${toolCallId}`;
}

function attemptRows(step: StepView, facts: Facts, depth: number): Row[] {
  let atMs = timeOf(step.startedAt) ?? facts.endMs;
  const rows: Row[] = [];
  const tries = new Map<Attempt['purpose'], number>();
  for (const [index, attempt] of step.attempts.entries()) {
    const tried = tries.get(attempt.purpose) ?? 0;
    tries.set(attempt.purpose, tried + 1);
    const endedMs = facts.attemptEnds.get(attempt.requestId);
    const fromMs = endedMs === undefined ? atMs : endedMs - attempt.latencyMs;
    const toMs = endedMs ?? fromMs + attempt.latencyMs;
    atMs = toMs;
    rows.push(
      row({
        id: `${facts.steps.runId}:attempt:${step.stepNumber}:${index}`,
        kind: attempt.purpose === 'summary' ? 'compaction' : 'attempt',
        depth,
        label: attempt.purpose === 'summary' ? `summary by ${attempt.model}` : attempt.model,
        note: attemptNote(attempt, tried),
        tone: { succeeded: 'good', failed: 'bad', skipped: 'wait' }[attempt.outcome] as Tone,
        fromMs,
        toMs,
        costMicrocents: attempt.costMicrocents,
        anchor: anchorOfStep(facts.steps.runId, step.stepNumber),
      }),
    );
  }
  return rows;
}

/** Numbered within the step: `attemptNumber` counts all of the run, so a second step would look like a second try. */
function attemptNote({ outcome, error, skipReason }: Attempt, tried: number): string {
  const number = tried > 0 ? `attempt ${tried + 1}` : '';
  const what = { succeeded: '', failed: error?.kind ?? 'failed', skipped: `skipped: ${skipReason ?? ''}` }[outcome];
  return [number, what].filter(Boolean).join(' · ');
}

function callRows(call: CallView, stepNumber: number, facts: Facts, depth: number): Row[] {
  const fromMs = timeOf(call.startedAt) ?? timeOf(call.endedAt) ?? facts.endMs;
  const isOver = call.result !== undefined || call.error !== undefined || facts.isOver;
  const children = facts.steps.children.filter(
    ({ toolCallId, runId }) => toolCallId === call.toolCallId || runId === call.childRunId,
  );
  return [
    row({
      id: `${facts.steps.runId}:call:${stepNumber}:${call.toolCallId}`,
      kind: 'call',
      depth,
      label: call.toolName,
      note: call.error ? `${call.error.kind}: ${call.error.message}` : '',
      tone: call.error ? 'bad' : isOver ? 'good' : 'open',
      fromMs,
      toMs: timeOf(call.endedAt) ?? (isOver ? fromMs + (call.durationMs ?? 0) : facts.endMs),
      anchor: anchorOfCall(facts.steps.runId, stepNumber, call.toolCallId),
    }),
    ...call.inner.flatMap((inner) => callRows(inner, stepNumber, facts, depth + 1)),
    ...children.flatMap((child) => childRows(child, facts, depth + 1)),
  ];
}

/** Children that no call has started, as those of a fan-out. */
function strayChildren({ children, steps }: RunSteps): readonly ChildView[] {
  const calls = allCalls(steps);
  const isOf = (call: CallView, child: ChildView) =>
    call.toolCallId === child.toolCallId || call.childRunId === child.runId;
  return children.filter((child) => !calls.some((call) => isOf(call, child)));
}

/** Every call of these steps with those that a script made within it. */
export function allCalls(steps: readonly StepView[]): readonly CallView[] {
  const within = (call: CallView): readonly CallView[] => [call, ...call.inner.flatMap(within)];
  return steps.flatMap(({ calls }) => calls.flatMap(within));
}

/** An answer that an orchestration got, and keeps. */
function answerRow({ key, at, costMicrocents }: OrchestrationStepView, { steps }: Facts, depth: number): Row {
  const atMs = Date.parse(at);
  return row({
    id: `${steps.runId}:answer:${key}`,
    kind: 'answer',
    depth,
    label: key,
    note: 'has its answer',
    tone: 'good',
    fromMs: atMs,
    toMs: atMs,
    costMicrocents,
  });
}

const endedWell: ReadonlySet<string> = new Set(['completed']);
const endedIll: ReadonlySet<string> = new Set(['failed', 'cancelled', 'blocked', 'degraded']);

function childRows(child: ChildView, facts: Facts, depth: number): Row[] {
  const { runId, agent, status, costMicrocents = 0 } = child;
  const fromMs = timeOf(child.startedAt) ?? timeOf(child.endedAt) ?? facts.endMs;
  const own = facts.opened.get(runId);
  return [
    row({
      id: `child:${runId}`,
      kind: 'child',
      depth,
      label: agent ?? runId,
      note: status ?? '',
      tone: endedWell.has(status ?? '') ? 'good' : endedIll.has(status ?? '') ? 'bad' : facts.isOver ? 'plain' : 'open',
      fromMs,
      toMs: timeOf(child.endedAt) ?? facts.endMs,
      costMicrocents,
      runId,
    }),
    // What is known of events is known of the run on the page.
    ...(own ? rowsOf({ ...facts, steps: own, events: [] }, depth + 1) : []),
  ];
}

type SomeOfRow = Pick<Row, 'id' | 'kind' | 'depth' | 'label' | 'tone' | 'fromMs' | 'toMs'> & Partial<Row>;

function row(some: SomeOfRow): Row {
  const toMs = Math.max(some.fromMs, some.toMs);
  return { note: '', costMicrocents: 0, anchor: undefined, runId: undefined, ...some, toMs };
}

/** Milliseconds since the epoch. Undefined where nothing is known. */
export function timeOf(iso: string | undefined): number | undefined {
  return iso === undefined || iso === '' ? undefined : Date.parse(iso);
}

function countOf(count: number, what: string): string {
  return count === 0 ? '' : `${count} ${what}${count === 1 ? '' : 's'}`;
}
