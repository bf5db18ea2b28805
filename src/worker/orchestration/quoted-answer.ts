import { sha256 } from '../../shared/base/ids.ts';
import { sanitise } from '../guards/sanitise.ts';
import type { ChildAnswer } from './orchestration.ts';

/** Has the agent that answered read untrusted text? One whose answer does not say so counts as if. */
export function hasReadUntrusted(answer: ChildAnswer): boolean {
  return answer.kind === 'ended' && (answer.end.flow?.sources.length ?? 1) > 0;
}

/**
 * An answer as another agent gets it in its question: like a result of a tool that is not trusted, where its author has read
 * untrusted text. The same answer gives the same text again.
 */
export function quotedAnswer(text: string, agent: string, isUntrusted: boolean): string {
  if (!isUntrusted) return text;
  const nonce = sha256(`${agent}:${text}`).slice(0, 12);
  return sanitise(text, { trust: 'derived-untrusted', toolName: `agent:${agent}`, nonce }).text;
}
