import { z } from 'zod';
import { canonicalJson, jsonText, storedJson } from '../base/json.ts';
import type { DecisionRequest } from './control.ts';
import { assertNever, RunError } from '../base/errors.ts';
import { suspendReason, type PendingItem, type PendingView } from './event.ts';
import { isAboutCall } from './plain/pending.ts';
import { defined } from '../base/collections.ts';
import { sha256 } from '../base/ids.ts';

export { isAboutCall, pendingNameOf } from './plain/pending.ts';

const verdict = z.enum(['granted', 'denied', 'answered']);
type Verdict = z.infer<typeof verdict>;

const vote = z.object({
  by: z.string().optional(),
  verdict,
  /** Of the whole vote: people agree when their votes have the same. */
  fingerprint: z.string(),
  at: z.string(),
  reason: z.string().optional(),
  edited: z.literal(true).optional(),
  /** Where several people decide: JSON of the decision that this person wants. */
  decision: z.string().optional(),
});
type Vote = z.infer<typeof vote>;

/**
 * What is known about one pending call: each vote, and from then on what was decided. Without a verdict more people
 * are needed. `resumes` counts the resumptions before it was decided.
 */
export const decisionRecord = z.object({
  id: z.string(),
  kind: suspendReason,
  toolName: z.string().optional(),
  requestedAt: z.string().optional(),
  expiresAt: z.string().optional(),
  needed: z.int().min(1),
  verdict: z.enum([...verdict.options, 'expired']).optional(),
  fingerprint: z.string().optional(),
  at: z.string().optional(),
  resumes: z.int().min(0).optional(),
  votes: z.array(vote).default([]),
});
export type DecisionRecord = z.output<typeof decisionRecord>;

export const voteView = z.object({
  by: z.string().optional(),
  granted: z.boolean().optional(),
  answered: z.literal(true).optional(),
  at: z.string(),
  reason: z.string().optional(),
  edited: z.literal(true).optional(),
});
export type VoteView = z.infer<typeof voteView>;

/**
 * A decision about a call of a run, as it is shown. `granted` or `answered` says what was decided; without either more
 * people have to agree. `by` names the people who decided: empty when none gave a name, or when the time was up. `votes` is there
 * where several people are asked.
 */
export const decisionView = z.object({
  toolCallId: z.string(),
  toolName: z.string().optional(),
  kind: suspendReason,
  granted: z.boolean().optional(),
  answered: z.literal(true).optional(),
  by: z.array(z.string()),
  at: z.string(),
  reason: z.string().optional(),
  edited: z.literal(true).optional(),
  votes: z.array(voteView).optional(),
});
export type DecisionView = z.infer<typeof decisionView>;

/** What one person says about one call. */
export interface CallVerdict {
  readonly id: string;
  readonly verdict: Verdict;
  readonly vote: Vote;
  /** A `callDecision` for the journal, as JSON without `by`. */
  readonly decision: string;
}

/** Why a decision was not taken. Nothing of the request was. */
export type Refusal =
  | { readonly why: 'not_pending'; readonly id: string }
  | { readonly why: 'decided'; readonly id: string; readonly by: DecisionRecord }
  | { readonly why: 'expired'; readonly id: string; readonly at: string }
  | { readonly why: 'unsuitable'; readonly id: string; readonly kind: string }
  | { readonly why: 'nameless'; readonly id: string; readonly needed: number }
  | { readonly why: 'too_many'; readonly id: string; readonly votes: number }
  | { readonly why: 'no_money' };

export function pendingViewOf(pending: PendingItem): PendingView {
  const { id, argsSchema: _, ...item } = pending;
  return isAboutCall(item) ? { ...item, toolCallId: id } : { ...item, id };
}

/** Does this wait end by what a person says, about a call or about money? */
export function waitsForPeople(item: Pick<PendingItem, 'kind'>): boolean {
  return item.kind === 'budget' || isAboutCall(item);
}

/** What a request says about each call. Throws `validation` when it names a call twice. */
export function callVerdicts(request: DecisionRequest, by: string | undefined, at: string): readonly CallVerdict[] {
  const { approvals = [], answers = [] } = request;
  const verdictOf = (
    id: string,
    said: Pick<Vote, 'verdict' | 'reason' | 'edited'>,
    content: unknown,
    decision: object,
  ) => {
    const { verdict, reason, edited } = said;
    const fingerprint = sha256(canonicalJson([verdict, content ?? null]));
    const mine: Vote = defined({ by, verdict, fingerprint, at, reason, edited });
    return { id, verdict, vote: mine, decision: jsonText(decision) };
  };
  const verdicts: readonly CallVerdict[] = [
    ...approvals.map(({ toolCallId: id, granted, reason = request.reason, updatedArgs }) => {
      const said = { verdict: granted ? 'granted' : 'denied', reason, edited: updatedArgs && true } as const;
      const decision = { kind: 'approval', id, granted, reason, updatedArgs, at };
      return verdictOf(id, said, granted ? updatedArgs : undefined, decision);
    }),
    ...answers.map(({ toolCallId: id, answer }) => {
      const said = { verdict: 'answered', reason: request.reason } as const;
      return verdictOf(id, said, answer, { kind: 'answer', id, answer, at });
    }),
  ];
  const twice = verdicts.find(({ id }, index) => verdicts.findIndex((other) => other.id === id) !== index);
  if (twice) throw new RunError('validation', `the decision names call ${twice.id} twice`);
  return verdicts;
}

/** In words, for `run.resumed`. */
export function verdictsSummary(verdicts: readonly CallVerdict[]): string {
  const said: Record<Verdict, string> = { granted: 'approved', denied: 'denied', answered: 'answered' };
  const shown = verdicts.slice(0, maxSummed).map(({ id, verdict: what }) => `${id} ${said[what]}`);
  const more = verdicts.length - shown.length;
  return `${shown.join(', ')}${more > 0 ? ` and ${more} more decided` : ''}`;
}

const maxSummed = 5;

/** The error that a caller gets. */
export function refusalError(runId: string, refusal: Refusal): RunError {
  switch (refusal.why) {
    case 'not_pending':
      return new RunError('approval_not_pending', `run ${runId} does not wait for a decision about call ${refusal.id}`);
    case 'decided':
      return new RunError('approval_not_pending', `call ${refusal.id} of run ${runId} ${wasDecided(refusal.by)}`);
    case 'expired':
      return new RunError(
        'approval_expired',
        `the time to decide about call ${refusal.id} of run ${runId} was over at ${refusal.at}; it counts as denied`,
      );
    case 'unsuitable':
      return new RunError('validation', `call ${refusal.id} of run ${runId} ${suited(refusal.kind)}`);
    case 'nameless':
      return new RunError(
        'validation',
        `call ${refusal.id} of run ${runId} needs ${refusal.needed} different people: say who you are (\`by\`)`,
      );
    case 'too_many':
      return new RunError(
        'validation',
        `call ${refusal.id} of run ${runId} has ${refusal.votes} votes and no agreement: deny it, or let it expire`,
      );
    case 'no_money':
      return new RunError('approval_not_pending', `run ${runId} does not wait for a decision about money`);
    default:
      return assertNever(refusal);
  }
}

function wasDecided(record: DecisionRecord): string {
  const { granted, answered, by, at, edited } = viewOfDecision(record);
  const who = by.length > 0 ? ` by ${by.join(' and ')}` : '';
  const what = answered ? 'answered' : granted ? `approved${edited ? ' with other arguments' : ''}` : 'denied';
  return `was ${what}${who} at ${at}`;
}

function suited(kind: string): string {
  if (kind === 'user_input') return 'is a question: answer it, or deny it';
  return 'waits for a yes or no: approve or deny it; only deferred calls take an answer';
}

/** All that was decided about the calls of a run, oldest first. */
export function decisionViews(records: Iterable<DecisionRecord>): DecisionView[] {
  const place = ({ at, toolCallId }: DecisionView) => `${at} ${toolCallId}`;
  return [...records].map(viewOfDecision).sort((a, b) => (place(a) < place(b) ? -1 : 1));
}

function viewOfDecision(record: DecisionRecord): DecisionView {
  const { id, toolName, kind, verdict: decided, votes, needed, at = votes.at(-1)?.at ?? '' } = record;
  const deciders = decidersOf(record);
  const last = deciders.at(-1);
  const reason = decided === 'expired' ? 'expired' : last?.reason;
  return {
    toolCallId: id,
    ...(toolName !== undefined && { toolName }),
    kind,
    ...(decided && (decided === 'answered' ? { answered: true as const } : { granted: decided === 'granted' })),
    by: deciders.flatMap(({ by }) => (by === undefined ? [] : [by])),
    at,
    ...(reason !== undefined && { reason }),
    ...(last?.edited && { edited: true as const }),
    ...(needed > 1 && votes.length > 0 && { votes: votesOf(record) }),
  };
}

/** Everybody's word, as it is shown. */
export function votesOf({ votes }: Pick<DecisionRecord, 'votes'>): VoteView[] {
  return votes.map(({ by, verdict: said, at, reason, edited }) => ({
    ...(by !== undefined && { by }),
    ...(said === 'answered' ? { answered: true as const } : { granted: said === 'granted' }),
    at,
    ...(reason !== undefined && { reason }),
    ...(edited && { edited }),
  }));
}

/** The last votes of those whose word became the decision, in the order in which they gave them. */
export function decidersOf({ votes, fingerprint }: Pick<DecisionRecord, 'votes' | 'fingerprint'>): readonly Vote[] {
  const latest = new Map(votes.map((each) => [each.by ?? '', each]));
  return votes.filter((each) => each.fingerprint === fingerprint && latest.get(each.by ?? '') === each);
}

/** Reads what Redis keeps about one call. Throws `run_state_malformed`. */
export function readDecision(json: string, runId: string): DecisionRecord {
  try {
    return decisionRecord.parse(storedJson(json));
  } catch (cause) {
    throw new RunError('run_state_malformed', `a decision of run ${runId} cannot be read`, { cause });
  }
}
