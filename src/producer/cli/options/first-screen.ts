import { Help, type Command } from 'commander';

/** The commands by what a user wants, the newcomer first. Those that are missing here are named under `More`. */
const groups = {
  'Start here': {
    init: 'make a folder with an agent, a tool and a test',
    dev: 'run all of it here: Redis, producer, worker, console',
    run: 'start one run and stream its answer',
    chat: 'talk to an agent, line by line',
    batch: 'run every line of a file, safe to stop and repeat',
    demo: 'see all of it once, in half a minute',
  },
  Runs: {
    runs: 'list runs, newest first',
    get: 'show one: state, result, tokens, cost',
    tail: 'follow one, or everything',
    cancel: 'stop one',
    redrive: 'queue failed runs again, from where they were',
    threads: 'list, read, export and delete conversations',
  },
  'People and money': {
    approvals: 'list what waits for people',
    approve: 'grant a call, answer a question, go over a budget',
    deny: 'deny a call, or more money',
    budget: 'show and change what may be spent',
    costs: 'show what model calls cost, by day, agent and model',
  },
  Operate: {
    agents: 'list the agents; `agents check` examines a folder',
    doctor: 'examine Redis, queues, workers and providers',
    producer: 'run one producer process',
    worker: 'run one worker process',
  },
} as const satisfies Record<string, Readonly<Record<string, string>>>;

const helpWidth = 80;

/** What `millrace --help` shows: 40 lines of 80 columns at most. Every other help is commander's own. */
export function firstScreen(program: Command, helper: Help): string {
  if (program.parent) return new Help().formatHelp(program, helper);
  const offered = new Map(
    program.commands.map((command) => [command.name(), [command.name(), ...argumentsOf(command)].join(' ')]),
  );
  const listed = new Set<string>(Object.values(groups).flatMap((commands) => Object.keys(commands)));
  const terms = [...offered].filter(([name]) => listed.has(name)).map(([, term]) => term);
  const width = Math.max(...terms.map((term) => term.length));
  const blocks = Object.entries(groups).map(([title, commands]) => {
    const lines = Object.entries(commands)
      .filter(([name]) => offered.has(name))
      .map(([name, does]) => `  ${(offered.get(name) ?? '').padEnd(width)}  ${does}`);
    return [`${title}:`, ...lines].join('\n');
  });
  const more = [...offered.keys()].filter((name) => !listed.has(name)).sort();
  return [
    `Usage: millrace COMMAND [options]   (millrace COMMAND --help says more)`,
    ...blocks,
    inLines(`More: ${more.join(', ')}`),
  ]
    .join('\n\n')
    .concat('\n');
}

/** Broken between words, so that no line is wider than the screen. */
function inLines(words: string): string {
  return words.replaceAll(new RegExp(`(.{1,${helpWidth}})(?: |$)`, 'g'), '$1\n').trimEnd();
}

/** Its arguments as help shows them: `<agent> [input]`. */
export function argumentsOf({ registeredArguments }: Command): readonly string[] {
  return registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
}

/** The width of a help text: that of the terminal, at most 100, and 80 where there is none. */
export function helpWidthOf(stream: { readonly isTTY?: boolean; readonly columns?: number }): number {
  return stream.isTTY ? Math.min(Math.max(stream.columns ?? helpWidth, 40), 100) : helpWidth;
}
