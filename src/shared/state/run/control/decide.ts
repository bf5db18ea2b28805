import { readDecision, type CallVerdict, type Refusal } from '../../../contract/decisions.ts';
import { assertNever } from '../../../base/errors.ts';
import { jsonText } from '../../../base/json.ts';
import { loadScript, type RunKeySpace, runOnRun } from '../../script.ts';
import { deedText } from '../../audit/audit-stream.ts';
import {
  afterWait,
  resumedEvent,
  waitingRun,
  type ResumedRun,
  type WaitEnd,
  type WaitingRun,
  waitEndArgs,
} from '../waits/resume.ts';

const script = loadScript(import.meta.url, './decide.lua');

/** What one person decides about a run that waits. */
export interface Decide extends WaitEnd {
  readonly verdicts: readonly CallVerdict[];
  /** The name of the person, if known. */
  readonly by?: string | undefined;
  /** Who asks, for the audit log, where no person is named. */
  readonly actor?: string | undefined;
}

/**
 * - gone, terminal: there is no such run, or it has ended
 * - refused: nothing was recorded
 * - recorded: more people have to agree, the run is running, or the same was recorded before
 * - resumed: something was decided, and the run is queued again. The caller adds its job
 */
export type DecideOutcome =
  | { readonly kind: 'gone' | 'terminal' | 'recorded' }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  | { readonly kind: 'resumed'; readonly resumed: ResumedRun };

type Reply =
  | readonly [0 | 1 | 3]
  | readonly [2, Refusal['why'], string, string | number]
  | readonly [4, number, number, string, string, number];

/**
 * Records decisions about what a run waits for, all or none, and ends its wait once something is decided. A verdict about
 * money in `entry.budget` needs a run that waits for money. Throws `queue_unavailable`; the same decision may
 * then be sent again.
 */
export async function decideAboutRun(space: RunKeySpace, runId: string, decide: Decide): Promise<DecideOutcome> {
  const run = await waitingRun(runId, space);
  if (!run) return { kind: 'gone' };
  const event = resumedEvent(run, decide);
  const args = [
    ...waitEndArgs(space, runId, event, decide),
    decide.entry.budget ? 1 : 0,
    decide.by ?? '',
    auditOfMoney(run, decide),
    ...decide.verdicts.flatMap(({ id, verdict, vote, decision }) => [
      id,
      verdict,
      vote.fingerprint,
      jsonText(vote),
      decision,
      auditOfCall(run, decide, { id, verdict, edited: vote.edited }).slice(0, -1),
    ]),
  ];
  const auditKey = await space.lifecycle.auditKeyFor(runId, run.tenant);
  const doing = `decision about run ${runId}`;
  const reply = (await runOnRun(space, runId, script, args, { doing, auditKey })) as Reply;
  switch (reply[0]) {
    case 0:
      return { kind: 'gone' };
    case 1:
      return { kind: 'terminal' };
    case 2:
      return { kind: 'refused', refusal: refusalOf(runId, reply[1], reply[2], reply[3]) };
    case 3:
      await space.lifecycle.publish(runId);
      return { kind: 'recorded' };
    case 4: {
      const [, ...ended] = reply;
      return { kind: 'resumed', resumed: await afterWait(space, run, ended) };
    }
    default:
      return assertNever(reply[0]);
  }
}

/** What every entry about a decision says of who, when and about what. */
function auditHead({ runId, request }: WaitingRun, { by, actor, atMs }: Decide) {
  const at = new Date(atMs).toISOString();
  return { kind: 'decision', at, by: by ?? actor, runId, agent: request.agent } as const;
}

function auditOfMoney(run: WaitingRun, decide: Decide): string {
  const { budget } = decide.entry;
  if (!budget) return '';
  return deedText({ ...auditHead(run, decide), verdict: budget === 'approve' ? 'approved' : 'rejected' }, run.tenant);
}

interface DecidedCall extends Pick<CallVerdict, 'id' | 'verdict'> {
  readonly edited: true | undefined;
}

function auditOfCall(run: WaitingRun, decide: Decide, { id, verdict, edited }: DecidedCall): string {
  return deedText({ ...auditHead(run, decide), verdict, toolCallId: id, edited }, run.tenant);
}

function refusalOf(runId: string, why: Refusal['why'], id: string, detail: string | number): Refusal {
  switch (why) {
    case 'not_pending':
      return { why, id };
    case 'decided':
      return { why, id, by: readDecision(String(detail), runId) };
    case 'expired':
      return { why, id, at: String(detail) };
    case 'unsuitable':
      return { why, id, kind: String(detail) };
    case 'nameless':
      return { why, id, needed: Number(detail) };
    case 'too_many':
      return { why, id, votes: Number(detail) };
    case 'no_money':
      return { why };
    default:
      return assertNever(why);
  }
}
