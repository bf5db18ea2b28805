import { defined } from '../../../shared/base/collections.ts';
import { parseAs } from '../../../shared/base/problems.ts';
import {
  decisionRequest,
  type DecisionInput,
  type DecisionRequest,
  callDecision,
  type CallDecision,
} from '../../../shared/contract/control.ts';
import type { Decide, DecideOutcome } from '../../../shared/state/run/control/decide.ts';
import {
  callVerdicts,
  refusalError,
  verdictsSummary,
  waitsForPeople,
  decidersOf,
  isAboutCall,
  type CallVerdict,
  type DecisionRecord,
  type Refusal,
} from '../../../shared/contract/decisions.ts';
import { assertNever, RunError } from '../../../shared/base/errors.ts';
import { findSecretKey } from '../../../shared/base/redact.ts';
import type { SavedRun, Row } from './in-memory-row.ts';
import type { PendingItem } from '../../../shared/contract/event.ts';

/** One person's decision, checked. Throws `validation` or `secret_in_payload`. */
export function checkedDecision(input: DecisionInput): DecisionRequest {
  const request = parseAs(decisionRequest, input, 'the decision is not valid');
  const secret = findSecretKey(request);
  if (secret) throw new RunError('secret_in_payload', `${secret} looks like a credential; runs must not carry any`);
  return request;
}

/** Throws `validation` for a top-up. */
export function decideOf(request: DecisionRequest, by: string | undefined, atMs: number): Decide {
  const { budget } = request;
  if (typeof budget === 'object') throw new RunError('validation', 'budget: a top-up needs budgets in Redis');
  const at = new Date(atMs).toISOString();
  const verdicts = callVerdicts(request, by, at);
  const summary = [
    ...(budget ? [`budget: ${budget}`] : []),
    ...(verdicts.length > 0 ? [verdictsSummary(verdicts)] : []),
  ];
  const entry = { v: 1, t: 'decided', at, ...(budget && { budget, ...(by !== undefined && { by }) }) } as const;
  return { verdicts, by, summary: summary.join(', '), entry, atMs };
}

/** Did the wait of the run end? Throws what a caller of `Millrace.decide` gets. */
export function hasResumed(runId: string, outcome: DecideOutcome): boolean {
  switch (outcome.kind) {
    case 'resumed':
      return true;
    case 'recorded':
      return false;
    case 'gone':
      throw new RunError('run_not_found', `there is no run ${runId}`);
    case 'terminal':
      throw new RunError('already_terminal', `run ${runId} has already ended`);
    case 'refused':
      throw refusalError(runId, outcome.refusal);
    default:
      return assertNever(outcome);
  }
}

/** When a suspended run goes on by itself: when its first call expires, and now if it waits for no person and no time. */
export function firstDue({ record: { status, pending } }: SavedRun, nowMs: number): number | undefined {
  if (status !== 'suspended') return undefined;
  const times = pending.flatMap(({ expiresAt }) => (expiresAt === undefined ? [] : [Date.parse(expiresAt)]));
  if (times.length > 0) return Math.min(...times);
  return pending.some(waitsForPeople) ? undefined : nowMs;
}

const maxVotes = 50;

/** What is to be recorded, or why nothing is. */
type Votes =
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  | { readonly kind: 'counted'; readonly complete: number };

/** Records one person's verdicts about the calls that a run waits for: all of them, or none. */
export function vote(row: Row, { verdicts, by = '', entry, segment }: Decide, at: string): Votes {
  const { pending, status } = row.record;
  const isHere = segment === undefined || segment === row.record.segment;
  if (entry.budget && !(isHere && status === 'suspended' && pending.some(({ kind }) => kind === 'budget'))) {
    return { kind: 'refused', refusal: { why: 'no_money' } };
  }
  const changes = new Map<string, DecisionRecord>();
  const complete: CallDecision[] = [];
  for (const verdict of verdicts) {
    const item = pending.find((each) => isAboutCall(each) && each.id === verdict.id);
    const counted = count(row, item, verdict, by, at, changes);
    if (counted && 'why' in counted) return { kind: 'refused', refusal: counted };
    if (counted?.verdict) complete.push(withNames(counted, verdict));
  }
  for (const [field, record] of changes) row.decisions.set(field, record);
  row.decided.push(...complete);
  const decided = new Set(complete.map(({ id }) => id));
  row.record = { ...row.record, pending: pending.filter((item) => !isAboutCall(item) || !decided.has(item.id)) };
  return { kind: 'counted', complete: complete.length };
}

/** What is known about the call from now on; undefined for a repeat. */
function count(
  row: Row,
  item: PendingItem | undefined,
  given: CallVerdict,
  by: string,
  at: string,
  changes: Map<string, DecisionRecord>,
): DecisionRecord | Refusal | undefined {
  const { id, verdict, vote: mine, decision } = given;
  const resumes = row.record.resumes ?? 0;
  let known = row.decisions.get(id);
  if (known && item && isAnother(known, item, resumes)) {
    changes.set(`${id}@${known.resumes ?? resumes}`, known);
    known = undefined;
  }
  if (known?.verdict) {
    if (known.verdict === 'expired') return { why: 'expired', id, at: known.expiresAt ?? '' };
    return known.fingerprint === mine.fingerprint ? undefined : { why: 'decided', id, by: known };
  }
  if (!item) return { why: 'not_pending', id };
  if (item.expiresAt !== undefined && item.expiresAt <= at) return { why: 'expired', id, at: item.expiresAt };
  if (!suits(item, verdict)) return { why: 'unsuitable', id, kind: item.kind };
  const needed = item.approvers ?? 1;
  if (needed > 1 && by === '') return { why: 'nameless', id, needed };

  const votes = known?.votes ?? [];
  const latest = new Map(votes.map((each) => [each.by ?? '', each.fingerprint]));
  if (latest.get(by) === mine.fingerprint) return undefined;
  if (votes.length >= maxVotes && verdict !== 'denied') return { why: 'too_many', id, votes: maxVotes };
  latest.set(by, mine.fingerprint);
  const agreed = [...latest.values()].filter((print) => print === mine.fingerprint).length;
  const isDecided = verdict === 'denied' || agreed >= needed;
  const record: DecisionRecord = {
    ...questionOf(item),
    votes: [...votes, { ...mine, ...(needed > 1 && { decision }) }],
    ...(isDecided && { verdict, fingerprint: mine.fingerprint, at, resumes }),
  };
  changes.set(id, record);
  return record;
}

/** Models repeat ids of calls. A decision before an earlier resumption, or with another time to expire, is about another call. */
function isAnother(known: DecisionRecord, item: PendingItem, resumes: number): boolean {
  return known.verdict ? resumes > (known.resumes ?? 0) : known.expiresAt !== item.expiresAt;
}

function suits({ kind, mode }: PendingItem, verdict: CallVerdict['verdict']): boolean {
  if (kind === 'user_input') return verdict !== 'granted';
  return verdict !== 'answered' || kind === 'unknown_outcome' || mode === 'deferred';
}

function questionOf(item: PendingItem): Omit<DecisionRecord, 'votes'> {
  const { id, kind, toolName, requestedAt, expiresAt, approvers = 1 } = item;
  return { id, kind, requestedAt, needed: approvers, ...defined({ toolName, expiresAt }) };
}

function withNames(record: DecisionRecord, { decision }: CallVerdict): CallDecision {
  const by = decidersOf(record).flatMap((each) => (each.by === undefined ? [] : [each.by]));
  return callDecision.parse({ ...(JSON.parse(decision) as object), by });
}

/** Takes the decisions that the journal does not have yet, and what the run still waits for. Records calls that expired. */
export function takeDecided(row: Row, at: string): { decisions: CallDecision[]; left: PendingItem[] } {
  const decisions = row.decided.splice(0);
  const ids = new Set(decisions.map(({ id }) => id));
  const open = row.record.pending.filter((item) => (isAboutCall(item) || item.kind === 'child') && !ids.has(item.id));
  const isExpired = ({ expiresAt }: PendingItem) => expiresAt !== undefined && expiresAt <= at;
  for (const item of open.filter(isExpired)) expire(row, item, at);
  return { decisions, left: open.filter((item) => !isExpired(item)) };
}

function expire(row: Row, item: PendingItem, at: string): void {
  const resumes = row.record.resumes ?? 0;
  const known = row.decisions.get(item.id);
  const isSame = known !== undefined && !known.verdict && known.expiresAt === item.expiresAt;
  if (known && !isSame) row.decisions.set(`${item.id}@${known.resumes ?? resumes}`, known);
  const votes = isSame ? known.votes : [];
  row.decisions.set(item.id, { ...questionOf(item), votes, verdict: 'expired', at, resumes });
}
