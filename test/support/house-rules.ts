import { posix } from 'node:path';
import { moduleFacts, type ModuleFacts } from './module-facts.ts';

const shared = ['shared/base', 'shared/contract', 'shared/egress', 'shared/dialects', 'shared/state'] as const;
const modelsAndGuards = [...shared, 'worker/guards', 'worker/llm', 'worker/prompt'] as const;
const turns = [...modelsAndGuards, 'worker/tools', 'worker/turn'] as const;
const runs = [...turns, 'worker/agents', 'worker/admission', 'worker/orchestration', 'worker/run'] as const;

/** Which room may import which. A room may always import itself; what is not in this table may import nothing of ours. */
export const arrows = {
  'shared/base': [],
  'shared/contract': ['shared/base'],
  'shared/egress': ['shared/base', 'shared/contract'],
  'shared/dialects': ['shared/base', 'shared/contract'],
  'shared/state': ['shared/base', 'shared/contract'],
  producer: shared,
  'producer/console': ['shared/base', 'shared/contract'],
  'worker/guards': shared,
  'worker/llm': shared,
  'worker/prompt': shared,
  'worker/ops': shared,
  'worker/tools': modelsAndGuards,
  'worker/turn': [...modelsAndGuards, 'worker/tools'],
  'worker/agents': turns,
  'worker/admission': turns,
  'worker/orchestration': [...turns, 'worker/agents', 'worker/admission'],
  'worker/run': [...turns, 'worker/agents', 'worker/admission', 'worker/orchestration'],
  'worker/jobs': runs,
  'worker/local': runs,
  'worker/entry': [...runs, 'worker/jobs', 'worker/local', 'worker/ops'],
  testing: [...runs, 'worker/local'],
} as const satisfies Record<string, readonly string[]>;
export type Room = keyof typeof arrows;

/** More files than this are a storeroom: the next reader does not find one by its name. */
export const maxFilesInFolder = 30;

/** Packages that only some files may name, also as a type. */
const fences: Readonly<Record<string, RegExp>> = {
  // An installation may be without it: it is loaded when a setting asks for it.
  '@aws-sdk/client-s3': /^src\/shared\/state\/results\/s3-bucket\.ts$/,
  bullmq: /^src\/(worker\/jobs\/|shared\/state\/fleet\/|producer\/batch\/advance\/consumer\.ts$)/,
  ioredis: /^src\/shared\/state\//,
  openai: /^src\/worker\/llm\/openai\//,
  'prom-client': /^src\/(worker\/ops\/metrics\/|producer\/http\/metrics\.ts$)/,
};

/** What starts a turn, and the only files that may take it: everything else goes through them. */
export const turnStarters: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'src/worker/turn/turn.ts': { runTurn: ['src/worker/run/run-job.ts'] },
  'src/worker/run/run-job.ts': { runJob: ['src/worker/jobs/consumer.ts', 'src/worker/local/drive.ts'] },
  'src/worker/local/create-agent.ts': {
    createAgentWith: ['src/worker/index.ts', 'src/worker/local/agent-engine.ts', 'src/testing/test-agent.ts'],
  },
  'src/worker/local/agent-engine.ts': { createAgentEngine: ['src/worker/local/runner-defaults.ts'] },
};

/** Entry points of a process: `createAgent` and `new Millrace()` run in programs that have no main file of ours. */
const entryPoints =
  /^src\/((worker|producer|producer\/cli|testing)\/main|worker\/index|producer\/client\/own-environment)\.ts$/;
/** What a terminal or a browser shows, or a sandbox sends to its parent; everything else may end up in Redis. */
const ownWriters =
  /^src\/(shared\/base\/json|producer\/cli\/.*|producer\/console\/.*|worker\/tools\/code-mode\/(child|engine|script-run))\.tsx?$/;
const publicDoors = /^src\/(worker|producer|testing)\/index\.ts$/;
/** What a browser or an edge function loads first. Nothing behind it needs Node, Redis or the schemas. */
export const browserDoor = 'src/producer/client/remote/entry.ts';
/** What the console is bundled from, besides its own files and the plain words of the contract. */
const consolePackages: ReadonlySet<string> = new Set([
  'preact',
  'preact/hooks',
  '@preact/signals',
  'preact-iso',
  'preact-iso/router',
  '@tanstack/virtual-core',
  'uplot',
  '@cfworker/json-schema',
  'csv-parse/browser/esm/sync',
  'csv-stringify/browser/esm/sync',
]);
const browserPackages: ReadonlySet<string> = new Set(['eventsource-parser']);

const forbiddenFolders = new Set(['utils', 'helpers', 'types', 'common']);

/** What the outside knows about the tree that is checked. */
export interface House {
  /** Path from the root, with slashes, to source text. */
  readonly files: ReadonlyMap<string, string>;
  /** Packages that an installation for production has, or may have. */
  readonly dependencies: ReadonlySet<string>;
  /** Files that load modules whose names are not known before: agent folders. */
  readonly loaders: ReadonlySet<string>;
}

/** Every broken rule as one line that names the file. Empty when the house is in order. */
export function violations(house: House): string[] {
  const facts = new Map([...house.files].map(([path, source]) => [path, moduleFacts(path, source)]));
  const found: string[] = [];
  for (const [path, module] of facts) {
    found.push(...ruleBreaks(path, module, house), ...turnBreaks(path, module));
    if (roomOf(path) === 'producer/console') {
      found.push(...consoleBreaks(path, module, house));
      continue;
    }
    for (const specifier of module.imports) {
      found.push(
        ...(specifier.startsWith('.') ? arrowBreaks(path, specifier, house) : fenceBreaks(path, specifier, house)),
      );
    }
  }
  return [...found, ...cycles(facts), ...browserBreaks(facts)];
}

/** The room of a file, or undefined for a file that stands in no room. */
export function roomOf(path: string): Room | undefined {
  if (path.startsWith('src/producer/console/')) return 'producer/console';
  if (path.startsWith('src/producer/')) return 'producer';
  if (path.startsWith('src/testing/')) return 'testing';
  if (/^src\/worker\/[^/]+\.ts$/.test(path)) return 'worker/entry';
  const [, room = ''] = /^src\/((?:shared|worker)\/[^/]+)\//.exec(path) ?? [];
  return room in arrows ? (room as Room) : undefined;
}

function ruleBreaks(path: string, module: ModuleFacts, house: House): string[] {
  const found: string[] = [];
  const folder = path.split('/').find((part) => forbiddenFolders.has(part));
  if (folder) found.push(`${path}: a folder is named ${folder}`);
  if (!roomOf(path)) found.push(`${path}: stands in no room`);
  if (posix.basename(path) === 'index.ts' && !publicDoors.test(path))
    found.push(`${path}: is not one of the three public doors`);
  if (module.exportsDefault) found.push(`${path}: has a default export`);
  if (module.exportsEverythingOf.length > 0)
    found.push(`${path}: exports everything of ${module.exportsEverythingOf.join(', ')}`);
  if (module.readsEnvironment && !entryPoints.test(path)) found.push(`${path}: reads process.env`);
  if (module.stringifies && !ownWriters.test(path)) found.push(`${path}: writes JSON without jsonText`);
  if (module.importsComputed && !house.loaders.has(path)) found.push(`${path}: imports a computed name`);
  return found;
}

/** Types come from everywhere in the contract and cost nothing; what is really loaded ends up in the bundle. */
function consoleBreaks(path: string, module: ModuleFacts, house: House): string[] {
  const loaded = module.loads.filter((specifier) => !isForConsole(path, specifier));
  const named = module.imports.filter((specifier) => specifier.startsWith('.') && !specifier.endsWith('.css'));
  return [
    ...named.flatMap((specifier) => arrowBreaks(path, specifier, house)),
    ...loaded.map((specifier) => `${path}: is bundled for browsers, and loads ${specifier}`),
  ];
}

function isForConsole(path: string, specifier: string): boolean {
  if (!specifier.startsWith('.')) return consolePackages.has(specifier) || specifier === 'uplot/dist/uPlot.min.css';
  return /^src\/(producer\/console|shared\/contract\/plain)\//.test(posix.join(posix.dirname(path), specifier));
}

/** What the program of a browser would load, from its door on, and has no use for. */
function browserBreaks(facts: ReadonlyMap<string, ModuleFacts>): string[] {
  const found: string[] = [];
  const seen = new Set<string>();
  const load = (path: string): void => {
    if (seen.has(path)) return;
    seen.add(path);
    if (roomOf(path) === 'shared/state') found.push(`${path}: is loaded by browsers, and reaches Redis`);
    for (const specifier of facts.get(path)?.loads ?? []) {
      if (specifier.startsWith('.')) load(posix.join(posix.dirname(path), specifier));
      else if (!browserPackages.has(specifier)) found.push(`${path}: is loaded by browsers, and loads ${specifier}`);
    }
  };
  load(browserDoor);
  return found;
}

function turnBreaks(path: string, { takes }: ModuleFacts): string[] {
  return takes.flatMap(([specifier, name]) => {
    if (!specifier.startsWith('.')) return [];
    const guarded = turnStarters[posix.join(posix.dirname(path), specifier)] ?? {};
    const taken = Object.entries(guarded).filter(([starter]) => name === starter || name === '*');
    return taken.flatMap(([starter, by]) =>
      by.includes(path) ? [] : [`${path}: may not start turns with ${starter}`],
    );
  });
}

function arrowBreaks(path: string, specifier: string, house: House): string[] {
  const target = posix.join(posix.dirname(path), specifier);
  if (!house.files.has(target)) return [`${path}: imports ${specifier}, and there is no file ${target}`];
  const [from, to] = [roomOf(path), roomOf(target)];
  if (!from || !to || from === to) return [];
  const allowed: readonly string[] = arrows[from];
  return allowed.includes(to) ? [] : [`${path}: ${from} may not import ${to} (${specifier})`];
}

function fenceBreaks(path: string, specifier: string, house: House): string[] {
  if (specifier.startsWith('node:')) return [];
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  if (!house.dependencies.has(name)) return [`${path}: imports ${name}, which production does not install`];
  const fence = fences[name];
  return fence && !fence.test(path) ? [`${path}: may not import ${name}`] : [];
}

/** Every way back to a file from itself, each named once. */
function cycles(facts: ReadonlyMap<string, ModuleFacts>): string[] {
  const done = new Set<string>();
  const trail: string[] = [];
  const found: string[] = [];
  const walk = (path: string) => {
    const start = trail.indexOf(path);
    if (start >= 0) found.push(`import cycle: ${[...trail.slice(start), path].join(' → ')}`);
    if (start >= 0 || done.has(path)) return;
    trail.push(path);
    for (const specifier of facts.get(path)?.imports ?? []) {
      if (specifier.startsWith('.')) walk(posix.join(posix.dirname(path), specifier));
    }
    trail.pop();
    done.add(path);
  };
  for (const path of facts.keys()) walk(path);
  return found;
}
