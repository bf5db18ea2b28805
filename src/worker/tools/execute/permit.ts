import { askForDecision, decided, gateOf } from './ask-people.ts';
import { agentBehind, denyByRule, judge, stricter } from './ask-rules.ts';
import type { Batch, Permission } from './batch.ts';
import type { ReadyCall } from './prepare.ts';

/** Asks the rules, then people, in this order. Never rejects. */
export async function permit(ready: ReadyCall, batch: Batch): Promise<Permission> {
  const judged = await judge(ready, undefined, batch);
  if (judged.kind !== 'judged') return judged;
  const { call: asked, verdict: ofCall } = judged;
  const subagentName = agentBehind(asked, batch);
  const other = subagentName === undefined ? judged : await judge(asked, subagentName, batch);
  if (other.kind !== 'judged') return other;
  const rewritten = other.call;
  const verdict = stricter(ofCall, other.verdict);
  if (agentBehind(rewritten, batch) !== subagentName) {
    const reason = 'a rule about a sub-agent must not put another one in its place';
    return denyByRule(rewritten, { ...verdict, action: 'deny', reason }, batch);
  }
  const { decision, ask } = ready.call;
  // A person who says that a call in doubt shall be made again has permitted it.
  if (decision && ask?.kind === 'unknown_outcome') return { kind: 'go', call: rewritten };
  if (decision) return decided(rewritten, decision, batch);
  const gate = await gateOf(rewritten, verdict, batch);
  if (!gate && ask?.kind !== 'approval' && ask?.kind !== 'user_input') return { kind: 'go', call: rewritten };
  return askForDecision(rewritten, gate ?? { kind: 'approval', mode: 'approval', reason: undefined }, batch);
}
