import type { ApprovalView } from '../../../../shared/contract/inbox/approvals.ts';
import type { DecisionInput } from '../../../../shared/contract/control.ts';
import type { DecisionView } from '../../../../shared/contract/decisions.ts';
import type { PendingView } from '../../../../shared/contract/event.ts';
import type { RunStatus } from '../../../../shared/contract/run.ts';
import { api } from '../../api.ts';
import { session } from '../../session.ts';
import { isEdited, type Draft } from '../../forms/draft.ts';

/** What a person says about an item. */
export type Verdict =
  | { readonly kind: 'grant'; readonly draft: Draft | undefined; readonly reason: string }
  | { readonly kind: 'deny'; readonly reason: string }
  | { readonly kind: 'answer'; readonly text: string }
  | { readonly kind: 'pass' }
  | { readonly kind: 'reject'; readonly reason: string }
  /** `key`: the same request again adds the money once. */
  | { readonly kind: 'topUp'; readonly usd: number; readonly key: string };

/** What the producer said to a decision. */
export interface Decided {
  readonly runId: string;
  readonly status: RunStatus;
  readonly pending: readonly PendingView[];
  readonly decisions?: readonly DecisionView[];
}

/** The body of the request. `by` is only sent where no key says who it is. */
export function decisionOf({ toolCallId = '' }: Pick<ApprovalView, 'toolCallId'>, verdict: Verdict): DecisionInput {
  const reason = 'reason' in verdict && verdict.reason.trim() !== '' ? { reason: verdict.reason.trim() } : {};
  switch (verdict.kind) {
    case 'grant': {
      const { draft } = verdict;
      const edited = draft && isEdited(draft) ? { updatedArgs: draft.value as Record<string, unknown> } : {};
      return { approvals: [{ toolCallId, granted: true, ...edited, ...reason }] };
    }
    case 'deny':
      return { approvals: [{ toolCallId, granted: false, ...reason }] };
    case 'answer':
      return { answers: [{ toolCallId, answer: verdict.text }] };
    case 'pass':
      return { budget: 'approve' };
    case 'reject':
      return { budget: 'reject', ...reason };
    case 'topUp':
      return { budget: { topUpUsd: verdict.usd } };
    default:
      throw new Error(`no such verdict: ${String(verdict satisfies never)}`);
  }
}

/** Sends a decision. The same one again, after an answer that was lost, changes nothing. Throws `ApiError`. */
export async function decide(item: ApprovalView, verdict: Verdict, by: string): Promise<Decided> {
  const now = session.value;
  const named = now.state === 'in' && !now.keys && by.trim() !== '' ? { by: by.trim() } : {};
  return await api<Decided>(`/v1/runs/${encodeURIComponent(item.runId)}/decisions`, {
    method: 'POST',
    body: { ...decisionOf(item, verdict), ...named },
    headers: verdict.kind === 'topUp' ? { 'idempotency-key': verdict.key } : {},
  });
}

const nameKey = 'millrace-name';

/** Who decides where no key says it, as it was typed in this browser last. */
export function knownName(): string {
  return localStorage.getItem(nameKey) ?? '';
}

export function keepName(name: string): void {
  localStorage.setItem(nameKey, name);
}
