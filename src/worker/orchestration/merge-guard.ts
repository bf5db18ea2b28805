import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import type { LeakStrictness } from '../../shared/contract/agent/lateral-leak.ts';
import { checkMerge, childTrust } from '../guards/leaks/merge.ts';
import type { FanOutResultChild, MergeGuard } from '../agents/define-judge.ts';

/** The guard of an agent's definition; undefined for an agent without one. */
export function guardOf({ mergeGuard }: Pick<AgentDefinition, 'mergeGuard'>): MergeGuard | undefined {
  return mergeGuard && mergeGuard.strictness !== 'off' ? trustGuard(mergeGuard.strictness) : undefined;
}

/** The merge guard of an agent: measures what each child has of a merged text, and how far the child is trusted. */
function trustGuard(strictness: Exclude<LeakStrictness, 'off'>): MergeGuard {
  return ({ children, text }) => {
    const { shares: weights, biased, leak } = checkMerge(text, children.map(judged), strictness);
    const names = biased.map((index) => children[index]?.id ?? '');
    if (names.length > 0 && strictness === 'detect-and-block') {
      const reason = `too much of the merged answer is from ${names.join(', ')}, which had read what is not trusted`;
      return { kind: 'block', reason, leak };
    }
    const flagged = names.length > 0 && strictness === 'detect-and-flag' ? names : undefined;
    return { kind: 'pass', weights, leak, ...(flagged && { flagged }) };
  };
}

/** What did not answer has nothing in the merged text. */
function judged({ status, output = '', leaks }: FanOutResultChild) {
  return {
    output: status === 'completed' ? output : '',
    trust: childTrust(leaks?.origins ?? [], leaks?.denials.length ?? 0),
  };
}

/** Both guards: the first that blocks decides, and shares that an author measures are shown before ours. */
export function bothGuards(agents: MergeGuard | undefined, authors: MergeGuard | undefined): MergeGuard | undefined {
  if (!agents || !authors) return agents ?? authors;
  return (merge) => {
    const first = agents(merge);
    if (first.kind === 'block') return first;
    const second = authors(merge);
    return { ...first, ...second, leak: first.leak ?? second.leak };
  };
}
