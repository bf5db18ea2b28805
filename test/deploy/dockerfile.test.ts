import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { configSchema } from '../../src/shared/contract/config.ts';

const root = join(import.meta.dirname, '../..');

interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** The instructions of each stage, with continued lines joined and comments removed. */
function stages(): Instruction[][] {
  const lines = readFileSync(join(root, 'Dockerfile'), 'utf8')
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line));
  const all = lines
    .join('\n')
    .replace(/\\\n\s*/g, ' ')
    .split('\n')
    .map((line) => {
      const [name = '', ...rest] = line.split(' ');
      return { name, text: rest.join(' ').trim() };
    });
  const found: Instruction[][] = [];
  for (const instruction of all) {
    if (instruction.name === 'FROM') found.push([]);
    found.at(-1)?.push(instruction);
  }
  return found;
}

const [build = [], final = []] = stages();
const textOf = (stage: readonly Instruction[], name: string) =>
  stage.filter((instruction) => instruction.name === name).map(({ text }) => text);

test('two stages of the same Node build and run', () => {
  expect(stages()).toHaveLength(2);
  expect(textOf(build, 'FROM')).toEqual(['node:24-slim AS build']);
  expect(textOf(final, 'FROM')).toEqual(['node:24-slim']);
});

test('the build installs what the lockfile says, without install scripts, and drops what only development needs', () => {
  const [install, make] = textOf(build, 'RUN');
  expect(install).toBe('npm ci --ignore-scripts');
  expect(make).toBe('npm run build && npm prune --omit=dev --ignore-scripts');
});

test('the image takes only built files and production packages from the build', () => {
  const copies = textOf(final, 'COPY');
  expect(copies).toEqual([
    '--from=build /app/package.json ./',
    '--from=build /app/node_modules ./node_modules',
    '--from=build /app/bin ./bin',
    '--from=build /app/dist ./dist',
    'LICENSE ./',
  ]);
});

test('the process is not root, has tini as its parent and is a producer by default', () => {
  expect(textOf(final, 'USER')).toEqual(['1000']);
  expect(textOf(final, 'ENTRYPOINT')).toEqual(['["tini", "--", "node", "bin/millrace.mjs"]']);
  expect(textOf(final, 'CMD')).toEqual(['["producer"]']);
  expect(textOf(final, 'RUN').join('\n')).toContain('apt-get install -y --no-install-recommends tini');
});

test('the compile cache is filled as the user who runs, because Node keeps one per user', () => {
  const names = final.map(({ name, text }) => `${name} ${text}`);
  const warm = names.findIndex((line) => line.startsWith('RUN node '));
  expect(warm).toBeGreaterThan(names.indexOf('USER 1000'));
  expect(names[warm]).toContain('/app/dist/producer/http/start-producer.js');
  expect(names[warm]).toContain('/app/dist/worker/index.js');
});

test('the environment of the image is production, and every variable of ours in it exists', () => {
  const env = Object.fromEntries(
    [
      ...textOf(final, 'ENV')
        .join(' ')
        .matchAll(/(\w+)=(\S+)/g),
    ].map(([, name, value]) => [name, value]),
  );
  expect(env).toEqual({
    NODE_ENV: 'production',
    NODE_COMPILE_CACHE: '/app/.compile-cache',
    NODE_OPTIONS: '--max-semi-space-size=16',
    MILLRACE_AGENTS: '/agents',
    HOST: '0.0.0.0',
  });
  const { NODE_COMPILE_CACHE: _, NODE_OPTIONS: __, ...own } = env;
  expect(Object.keys(own).filter((name) => !(name in configSchema.shape))).toEqual([]);
});

test('the image says what it is', () => {
  const labels = [
    ...textOf(final, 'LABEL')
      .join(' ')
      .matchAll(/org\.opencontainers\.image\.(\w+)=/g),
  ].map(([, name]) => name);
  expect(labels).toEqual(['title', 'description', 'licenses', 'version', 'revision']);
});

test('the build context holds what the Dockerfile copies and nothing that was not named', () => {
  const lines = readFileSync(join(root, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line && !line.startsWith('#'));
  expect(lines[0]).toBe('*');
  const allowed = lines.slice(1).map((line) => line.replace('!', ''));
  const copied = [...textOf(build, 'COPY'), 'LICENSE ./']
    .flatMap((text) => text.split(' ').slice(0, -1))
    .map((path) => path.replace('./', ''));
  expect(allowed.sort()).toEqual(copied.sort());
  expect(copied.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});
