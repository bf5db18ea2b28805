import { sha256 } from '../../../shared/base/ids.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import {
  leakStrictness,
  type CausalityMonitor,
  type Denial,
  type LeakDecision,
  type LeakFinding,
  type LeakStrictness,
} from '../../../shared/contract/agent/lateral-leak.ts';
import { reportsDenial } from './denial-patterns.ts';

/** Stands in place of a text that was blocked. It reports no denial itself. */
export const withheldNotice = '[a message was withheld here by the causality monitor]';
/** Stands before a text that was flagged. */
export const flagNotice = '[flagged by the causality monitor]';

/** What is known where a text crosses from one agent to another. */
export interface CrossingContext {
  readonly monitor: CausalityMonitor;
  /** What was denied so far to the agents that the text may come from. */
  readonly chain: readonly Denial[];
  /** The tools of the agent that gets the text. */
  readonly receives: readonly string[];
}

/** A text as it crosses, and the finding that there was. */
export interface Crossed {
  readonly text: string;
  readonly leak?: LeakFinding;
}

/**
 * Looks at a text that crosses between two agents: it is found when something was denied before, and the text reports a denial.
 * The severity is `high` where the receiver has a tool that was denied: it could do what the sender was not to do.
 */
export function cross(
  text: string,
  vector: Extract<LeakFinding['vector'], 'child-input' | 'child-answer' | 'handoff'>,
  { monitor, chain, receives }: CrossingContext,
): Crossed {
  const { strictness, denialPatterns } = monitor;
  if (strictness === 'off' || chain.length === 0 || !reportsDenial(text, denialPatterns)) return { text };
  const severity = chain.some(({ toolName }) => toolName !== undefined && receives.includes(toolName))
    ? 'high'
    : 'medium';
  const decision = decisionOf(strictness);
  const leak = {
    vector,
    severity,
    decision,
    contentSha256: sha256(text),
  } as const;
  return { text: textAfter(text, strictness), leak };
}

export function decisionOf(strictness: Exclude<LeakStrictness, 'off'>): LeakDecision {
  switch (strictness) {
    case 'detect':
      return 'detected';
    case 'detect-and-flag':
      return 'flagged';
    case 'detect-and-block':
      return 'blocked';
    default:
      return assertNever(strictness);
  }
}

function textAfter(text: string, strictness: LeakStrictness): string {
  if (strictness === 'detect-and-block') return withheldNotice;
  return strictness === 'detect-and-flag' ? `${flagNotice}\n${text}` : text;
}

const maxPhrases = 64;

/** The monitor of a run whose parents watch as well: as strict as the strictest, with the phrases of all. */
export function strictest(
  own: CausalityMonitor | undefined,
  above: CausalityMonitor | undefined,
): CausalityMonitor | undefined {
  const given = [own, above].filter((one) => one !== undefined && one.strictness !== 'off');
  const [first] = given;
  if (!first) return undefined;
  const order = leakStrictness.options;
  const level = Math.max(...given.map((one) => order.indexOf(one?.strictness ?? 'off')));
  const phrases = new Set(given.flatMap((one) => one?.denialPatterns ?? []));
  return { strictness: order[level] ?? first.strictness, denialPatterns: [...phrases].slice(0, maxPhrases) };
}
