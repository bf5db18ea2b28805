import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { arrows, maxFilesInFolder, roomOf, turnStarters, violations, type House } from './support/house-rules.ts';

const root = join(import.meta.dirname, '..');
const loaders = new Set(['src/worker/agents/load-agents.ts']);

function wholeHouse(): House {
  const paths = globSync('src/**/*.{ts,tsx}', { cwd: root }).map((path) => path.replaceAll('\\', '/'));
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
    optionalDependencies: Record<string, string>;
    peerDependencies: Record<string, string>;
  };
  return {
    files: new Map(paths.sort().map((path) => [path, readFileSync(join(root, path), 'utf8')])),
    dependencies: new Set(
      [manifest.dependencies, manifest.optionalDependencies, manifest.peerDependencies].flatMap((each) =>
        Object.keys(each),
      ),
    ),
    loaders,
  };
}

/** A house of a few files; an empty one stands wherever an import points. */
function sample(files: Record<string, string>): string[] {
  return violations({
    files: new Map(Object.entries(files)),
    dependencies: new Set(['zod', 'bullmq', 'ioredis', 'openai', 'prom-client']),
    loaders,
  });
}

test('no source file breaks a rule of the house', () => {
  expect(violations(wholeHouse())).toEqual([]);
});

test('the check sees every source file and every room', () => {
  const paths = [...wholeHouse().files.keys()];
  expect(paths.length).toBeGreaterThan(100);
  expect(new Set(paths.map(roomOf))).toEqual(new Set(Object.keys(arrows)));
});

test('what starts turns is taken by exactly those who may', () => {
  const { files } = wholeHouse();
  for (const [module, starters] of Object.entries(turnStarters)) {
    for (const [name, takers] of Object.entries(starters)) {
      expect(files.get(module), module).toMatch(new RegExp(`export (async )?function ${name}\\b`));
      for (const taker of takers) expect(files.get(taker), taker).toContain(name);
    }
  }
});

test('no folder of the source is a storeroom', () => {
  const files = globSync('src/**/*.*', { cwd: root });
  const folders = Map.groupBy(files, (path) => dirname(path));
  expect(folders.size).toBeGreaterThan(30);
  expect([...folders].filter(([, inside]) => inside.length > maxFilesInFolder).map(([folder]) => folder)).toEqual([]);
});

test('no folder is named after a kind of code', () => {
  const folders = globSync('{src,test,bench,scripts,examples,agents}/**/', { cwd: root });
  expect(folders.length).toBeGreaterThan(10);
  expect(folders.filter((folder) => /(^|\/)(utils|helpers|types|common)\/?$/.test(folder))).toEqual([]);
});

const forbidden: readonly [what: string, files: Record<string, string>, complaint: string][] = [
  [
    'a shared file that imports the producer',
    { 'src/shared/base/a.ts': `import { b } from '../../producer/b.ts';`, 'src/producer/b.ts': '' },
    'shared/base may not import producer',
  ],
  [
    'a contract that reaches for Redis',
    { 'src/shared/contract/a.ts': `import { b } from '../state/b.ts';`, 'src/shared/state/b.ts': '' },
    'shared/contract may not import shared/state',
  ],
  [
    'a type-only import against the arrows',
    { 'src/producer/a.ts': `import type { B } from '../worker/run/b.ts';`, 'src/worker/run/b.ts': '' },
    'producer may not import worker/run',
  ],
  [
    'an import type against the arrows',
    { 'src/worker/guards/a.ts': `type B = import('../llm/b.ts').B;`, 'src/worker/llm/b.ts': '' },
    'worker/guards may not import worker/llm',
  ],
  [
    'a dynamic import against the arrows',
    { 'src/worker/turn/a.ts': `await import('../run/b.ts');`, 'src/worker/run/b.ts': '' },
    'worker/turn may not import worker/run',
  ],
  [
    'a re-export against the arrows',
    { 'src/worker/llm/a.ts': `export { b } from '../turn/b.ts';`, 'src/worker/turn/b.ts': '' },
    'worker/llm may not import worker/turn',
  ],
  [
    'a tool that starts runs',
    { 'src/worker/tools/a.ts': `import { b } from '../run/b.ts';`, 'src/worker/run/b.ts': '' },
    'worker/tools may not import worker/run',
  ],
  [
    'a room that imports the composition root',
    { 'src/worker/run/a.ts': `import { b } from '../build.ts';`, 'src/worker/build.ts': '' },
    'worker/run may not import worker/entry',
  ],
  [
    'an orchestration that opens runs',
    { 'src/worker/orchestration/a.ts': `import { b } from '../run/b.ts';`, 'src/worker/run/b.ts': '' },
    'worker/orchestration may not import worker/run',
  ],
  [
    'the worker entry that imports the producer',
    { 'src/worker/main.ts': `import { b } from '../producer/b.ts';`, 'src/producer/b.ts': '' },
    'worker/entry may not import producer',
  ],
  [
    'a module of Node in a browser',
    {
      'src/producer/client/remote/entry.ts': `export { a } from '../a.ts';`,
      'src/producer/client/a.ts': `import { hostname } from 'node:os'; export const a = hostname();`,
    },
    'is loaded by browsers, and loads node:os',
  ],
  [
    'a schema in a browser',
    { 'src/producer/client/remote/entry.ts': `import { z } from 'zod';` },
    'is loaded by browsers, and loads zod',
  ],
  [
    'Redis in a browser, behind a dynamic import',
    {
      'src/producer/client/remote/entry.ts': `await import('../../../shared/state/b.ts');`,
      'src/shared/state/b.ts': '',
    },
    'is loaded by browsers, and reaches Redis',
  ],
  ['bullmq in the runner', { 'src/worker/run/a.ts': `import type { Job } from 'bullmq';` }, 'may not import bullmq'],
  [
    'bullmq in the producer',
    { 'src/producer/client/enqueue.ts': `import { Queue } from 'bullmq';` },
    'may not import bullmq',
  ],
  ['ioredis in the consumer', { 'src/worker/jobs/a.ts': `import { Redis } from 'ioredis';` }, 'may not import ioredis'],
  [
    'ioredis in the producer',
    { 'src/producer/client/a.ts': `import { Cluster } from 'ioredis';` },
    'may not import ioredis',
  ],
  [
    'openai by a subpath outside its adapter',
    { 'src/worker/turn/a.ts': `import x from 'openai/streaming';` },
    'may not import openai',
  ],
  [
    'prom-client beside the metrics file',
    { 'src/worker/ops/health.ts': `import { Gauge } from 'prom-client';` },
    'may not import prom-client',
  ],
  [
    'a package that is only there for development',
    { 'src/shared/base/a.ts': `import { test } from 'vitest';` },
    'production does not install',
  ],
  ['process.env in a room', { 'src/worker/run/a.ts': 'export const a = process.env.A;' }, 'reads process.env'],
  [
    'process.env by index',
    { 'src/worker/run/a.ts': `export const a = globalThis.process['env'];` },
    'reads process.env',
  ],
  [
    'process.env by destructuring',
    { 'src/worker/run/a.ts': 'const { env } = process; export const a = env;' },
    'reads process.env',
  ],
  [
    'the environment by import',
    { 'src/worker/run/a.ts': `import { env } from 'node:process'; export const a = env;` },
    'reads process.env',
  ],
  [
    'a second writer of JSON',
    { 'src/shared/state/a.ts': 'export const a = JSON.stringify({});' },
    'writes JSON without jsonText',
  ],
  [
    'a second writer of JSON by destructuring',
    { 'src/producer/a.ts': 'const { stringify } = JSON; export const a = stringify({});' },
    'writes JSON without jsonText',
  ],
  ['a default export', { 'src/shared/base/a.ts': 'export default 1;' }, 'has a default export'],
  [
    'a default export by name',
    { 'src/shared/base/a.ts': 'const a = 1; export { a as default };' },
    'has a default export',
  ],
  [
    'a barrel',
    { 'src/shared/base/index.ts': `export * from './a.ts';`, 'src/shared/base/a.ts': '' },
    'exports everything of ./a.ts',
  ],
  ['an index that is not a public door', { 'src/worker/turn/index.ts': '' }, 'is not one of the three public doors'],
  [
    'a producer that loads the console',
    {
      'src/producer/http/a.ts': `import { b } from '../console/b.ts';`,
      'src/producer/console/b.ts': 'export const b = 1;',
    },
    'producer may not import producer/console',
  ],
  [
    'a console that loads more of the contract than types',
    {
      'src/producer/console/a.tsx': `import { run } from '../../shared/contract/run.ts'; export const a = <p>{run}</p>;`,
      'src/shared/contract/run.ts': 'export const run = 1;',
    },
    'src/producer/console/a.tsx: is bundled for browsers, and loads ../../shared/contract/run.ts',
  ],
  [
    'a console with a package that is not for it',
    { 'src/producer/console/a.ts': `import { z } from 'zod';` },
    'src/producer/console/a.ts: is bundled for browsers, and loads zod',
  ],
  ['a computed import', { 'src/producer/a.ts': 'const name = "b"; await import(name);' }, 'imports a computed name'],
  [
    'an import of a file that does not exist',
    { 'src/shared/base/a.ts': `import { b } from './b.js';` },
    'there is no file src/shared/base/b.js',
  ],
  ['a file in no room', { 'src/worker/extra/a.ts': '' }, 'stands in no room'],
  ['a folder for everything', { 'src/shared/utils/a.ts': '' }, 'a folder is named utils'],
  [
    'a second place that starts turns',
    { 'src/worker/run/a.ts': `import { runTurn } from '../turn/turn.ts';`, 'src/worker/turn/turn.ts': '' },
    'may not start turns with runTurn',
  ],
  [
    'a turn that is started under another name, by a module as a whole or later on',
    {
      'src/worker/a.ts': `import { createAgentWith as make } from './local/create-agent.ts';`,
      'src/worker/b.ts': `import * as jobs from './run/run-job.ts';`,
      'src/worker/c.ts': `export { createAgentEngine } from './local/agent-engine.ts';`,
      'src/worker/d.ts': `await import('./turn/turn.ts');`,
      'src/worker/local/create-agent.ts': '',
      'src/worker/local/agent-engine.ts': '',
      'src/worker/run/run-job.ts': '',
      'src/worker/turn/turn.ts': '',
    },
    [
      'src/worker/a.ts: may not start turns with createAgentWith',
      'src/worker/b.ts: may not start turns with runJob',
      'src/worker/c.ts: may not start turns with createAgentEngine',
      'src/worker/d.ts: may not start turns with runTurn',
    ].join('\n'),
  ],
  [
    'a cycle of two files',
    { 'src/shared/base/a.ts': `import './b.ts';`, 'src/shared/base/b.ts': `import type { A } from './a.ts';` },
    'import cycle: src/shared/base/a.ts → src/shared/base/b.ts → src/shared/base/a.ts',
  ],
  [
    'a cycle of three files',
    {
      'src/shared/base/a.ts': `import './b.ts';`,
      'src/shared/base/b.ts': `import './c.ts';`,
      'src/shared/base/c.ts': `import './a.ts';`,
    },
    'import cycle',
  ],
];

test.each(forbidden)('the check refuses %s', (_, files, complaint) => {
  expect(sample(files).join('\n')).toContain(complaint);
});

test('the check accepts what the arrows and the fences allow', () => {
  const files = {
    'src/shared/base/a.ts': `import { z } from 'zod'; import { join } from 'node:path';`,
    'src/shared/contract/a.ts': `import '../base/a.ts';`,
    'src/shared/state/redis.ts': `import { Redis } from 'ioredis'; import '../contract/a.ts';`,
    'src/shared/state/fleet/queues.ts': `import { Queue } from 'bullmq'; import '../redis.ts';`,
    'src/producer/client/enqueue.ts': `import '../../shared/state/fleet/queues.ts';`,
    'src/worker/llm/openai/a.ts': `import OpenAI from 'openai'; import type { A } from '../../../shared/contract/a.ts';`,
    'src/worker/ops/metrics/metrics.ts': `import { Gauge } from 'prom-client';`,
    'src/worker/turn/a.ts': `import '../llm/openai/a.ts';`,
    'src/worker/agents/load-agents.ts': `import '../turn/a.ts'; const file = 'x'; await import(file);`,
    'src/worker/jobs/a.ts': `import '../agents/load-agents.ts'; import { Worker } from 'bullmq';`,
    'src/worker/build.ts': `import './jobs/a.ts'; import '../shared/state/redis.ts'; import './ops/metrics/metrics.ts';`,
    'src/worker/main.ts': `import './build.ts'; export const env = process.env;`,
  };
  expect(sample(files)).toEqual([]);
});

test('the console may load its own files, its packages and plain words of the contract, and know every type of it', () => {
  const files = {
    'src/producer/console/a.tsx': `import './styles/a.css';
      import { render } from 'preact';
      import { b } from './b.ts';
      import type { Run } from '../../shared/contract/run.ts';
      import { ends } from '../../shared/contract/plain/ends.ts';
      export const a = (run: Run) => render(<p>{ends}{b}{JSON.stringify(run)}</p>, document.body);`,
    'src/producer/console/b.ts': 'export const b = 1;',
    'src/shared/contract/run.ts': 'export type Run = string;',
    'src/shared/contract/plain/ends.ts': 'export const ends = 1;',
  };
  expect(sample(files)).toEqual([]);
});

test('a file that does not parse fails the check instead of being left out', () => {
  expect(() => sample({ 'src/shared/base/a.ts': 'import {' })).toThrow('src/shared/base/a.ts');
});
