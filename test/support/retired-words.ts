/** A private word of the past, and the field's word that replaced it (docs/glossary.md). */
interface RetiredWord {
  /** A word, or a phrase. Each form stands for itself; case does not count, and names are read as their words: `tellParent`, `told_at`. */
  readonly not: string;
  readonly but: string;
  /** Where the word is retired; elsewhere it is plain English. Default: everywhere. */
  readonly within?: RegExp | undefined;
}

export const retiredWords: readonly RetiredWord[] = [
  ...each('emit, publish, notify, report', ['tell', 'tells', 'telling', 'told', 'untold']),
  ...each('the worker, the caller, the reader: the actor', ['whoever', 'whomever', 'nobody', 'somebody']),
  ...each('rejoin, again', ['afresh']),
  ...each('requeue', ['put back', 'puts back', 'putting back', 'put backs']),
  ...each('redriven', ['driven again']),
  ...each('abandoned, released', ['given up']),
  ...each('skipped', ['passed over']),
  ...each('on-demand quarantine worker', ['lent']),
  ...each('acquire', ['take up', 'takes up', 'taking up', 'taken up', 'took up']),
  ...each('parent, child', ['run above', 'runs above', 'run below', 'runs below']),
  ...each('wait queue, waiter, position', ['stand in line', 'stands in line', 'place in line']),
  ...each('lock, lock owner', ['holder', 'holders', 'thread hold']),
  ...each('release', ['let go', 'lets go', 'letting go']),
  ...each('accounts', ['purse', 'purses']),
  ...each('budget gate, reservation', ['cashier']),
  ...each('write off', ['forfeit', 'forfeits', 'forfeited']),
  ...each('unconfirmed', ['presumed']),
  ...each('maxInlineWaitMs', ['patience']),
  ...each('dispatch', ['pump', 'pumps', 'pumped']),
  ...each('compaction requests', ['desk', 'attend', 'attends']),
  ...each('inbox, steer', ['heard', 'say to run']),
  ...each('orchestration', ['stepped', 'program host', 'program facts', 'is program']),
  ...each('orchestration', ['program', 'programs'], /^src\/worker\/orchestration\//),
  ...each('post-run jobs', ['what follows an answer', 'make effects', 'dispatch effects']),
  ...each('post-run jobs', ['effects'], /^src\/worker\/jobs\//),
  ...each('resume poller', ['waker']),
  ...each('rate limiter', ['governor']),
  ...each('compaction', ['memory'], /^src\/(shared\/contract\/agent|worker\/(agents|turn))\//),
  ...each('auxiliary call', ['side call', 'side calls']),
  ...each('pinned context', ['essentials']),
  ...each('key space', ['run place', 'thread place']),
  ...each('active agent', ['speaker']),
  ...each('closed', ['deaf']),
  ...each('running, terminal, draining', ['at work']),
  ...each('repair', ['mend', 'mends', 'mended', 'mending']),
  ...each('agent_started', ["t: 'opened'"]),
  ...each('tool_intent', ["t: 'calling'"]),
  ...each('tool_result', ["t: 'called'"]),
  ...each('model_response', ["t: 'answered'"]),
  ...each('effect recorder', ['witness', 'witnesses']),
  ...each('fault injection', ['havoc', 'harm at random']),
];

function each(but: string, words: readonly string[], within?: RegExp): RetiredWord[] {
  return words.map((not) => ({ not, but, within }));
}

/** A use of a retired word, with the line that it begins in. */
interface Use {
  readonly word: string;
  readonly but: string;
  readonly line: number;
}

/** Every use of a retired word in the text of a file. */
export function retiredWordsIn(path: string, text: string): Use[] {
  return retiredWords
    .filter(({ within }) => within === undefined || within.test(path))
    .flatMap(({ not, but }) =>
      [...text.matchAll(pattern(not))].map(({ index }) => ({
        word: not,
        but,
        line: text.slice(0, index).split('\n').length,
      })),
    );
}

/**
 * The words as prose, as a part of a name of either case, and over two lines of a comment. A word ends where a name's next
 * part begins.
 */
function pattern(words: string): RegExp {
  const parts = words.split(' ').map((word) => {
    const [first = '', ...rest] = word.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
    const tail = rest.join('');
    const [upper, lower] = [first.toUpperCase(), first.toLowerCase()];
    return upper === lower
      ? `${first}${tail}`
      : `(?:${upper}${tail.toUpperCase()}(?![A-Z])|(?:${upper}|(?<![A-Za-z])${lower})${tail})`;
  });
  const between = String.raw`(?:[ _-]|\n\s*(?:\*|//|--|#|>)? *)?`;
  const end = /\w$/.test(words) ? '(?![a-z])' : '';
  return new RegExp(parts.join(between) + end, 'g');
}
