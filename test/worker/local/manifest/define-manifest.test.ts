import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { RunError } from '../../../../src/shared/base/errors.ts';
import { defineAgent } from '../../../../src/worker/agents/define-agent.ts';
import { defineAgentManifest } from '../../../../src/worker/local/manifest/define-manifest.ts';

const act = () => ({ events: (async function* () {})(), output: Promise.resolve({ text: 'done' }) });
const rubric = { dimensions: [{ id: 'answered', weight: 1 }] };
const smallest = { id: 'support', rubric, run: { act } };

/** A root with a folder `tools` and a file `prompt.md`. */
function root(): string {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-manifest-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, 'tools'));
  writeFileSync(join(dir, 'prompt.md'), 'You answer.');
  return dir;
}

function problemsOf(manifest: object): unknown {
  try {
    defineAgentManifest(manifest as never);
    return [];
  } catch (error) {
    if (error instanceof RunError && error.code === 'agent_manifest_invalid') return error.details;
    throw error;
  }
}

test('id, rubric and run are enough, and everything of a manifest is frozen', () => {
  const manifest = defineAgentManifest(smallest);
  expect(manifest).toMatchObject({ id: 'support', surfaces: {}, knowledge: [], rubric });
  for (const part of [manifest, manifest.rubric, manifest.rubric.dimensions[0], manifest.run, manifest.surfaces])
    expect(Object.isFrozen(part)).toBe(true);
  expect(Object.isFrozen(rubric.dimensions)).toBe(false);
});

test('surfaces are folders and files below the root', () => {
  const manifest = defineAgentManifest({
    ...smallest,
    repoRoot: root(),
    surfaces: { prompt: 'prompt.md', tools: './tools' },
    knowledge: [{ id: 'rates', description: 'The rates of the year' }],
  });
  expect(manifest.surfaces).toEqual({ prompt: 'prompt.md', tools: './tools' });
  expect(manifest.knowledge).toEqual([{ id: 'rates', description: 'The rates of the year', required: true }]);
});

test('every problem is reported at once', () => {
  const surfaces = { prompt: 'tools', tools: 'prompt.md', skills: 'nowhere', knowledge: '../..', personas: ' ' };
  const dimensions = [
    { id: 'a', weight: 0.2 },
    { id: 'a', weight: 0.1 },
  ];
  expect(problemsOf({ id: ' ', repoRoot: root(), surfaces, rubric: { dimensions }, run: {}, colour: 1 })).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^id: /),
      expect.stringMatching(/^surfaces\.personas: must not be blank/),
      'surfaces.prompt: tools is not a file',
      'surfaces.tools: prompt.md is not a directory',
      'surfaces.skills: nowhere is missing',
      'surfaces.knowledge: ../.. is outside of repoRoot',
      'rubric.dimensions: a is there twice',
      'rubric.dimensions: the weights add up to 0.3, which is not between 0.5 and 1.5',
      'run.act: must be a function',
      'colour: is not a known field',
    ]),
  );
});

test.each<[string, object, RegExp]>([
  ['a blank root', { repoRoot: ' ', surfaces: { tools: 'tools' } }, /^repoRoot: must not be blank/],
  ['no root for surfaces', { surfaces: { tools: 'tools' } }, /^repoRoot: is needed/],
  ['a root that is not there', { repoRoot: '/nowhere/at/all', surfaces: { tools: 'tools' } }, /^repoRoot: there is no/],
  ['an unknown surface', { surfaces: { mood: 'good' } }, /mood/],
  ['a function in the place of a path', { surfaces: { prompt: async () => 'You answer.' } }, /^surfaces\.prompt: /],
  ['weights that are too heavy', { rubric: { dimensions: [{ id: 'a', weight: 1.6 }] } }, /add up to 1\.6/],
  ['a weight below zero', { rubric: { dimensions: [{ id: 'a', weight: -1 }] } }, /^rubric\.dimensions\.0\.weight: /],
  ['no dimensions', { rubric: { dimensions: [] } }, /^rubric\.dimensions: /],
  [
    'a scorer that is none',
    { rubric: { dimensions: [{ id: 'a', weight: 1, score: 1 }] } },
    /score: must be a function/,
  ],
  ['a run that is a function', { run: act }, /^run: /],
  [
    'knowledge that is given twice',
    { knowledge: [1, 2].map(() => ({ id: 'a', description: 'A' })) },
    /^knowledge: two/,
  ],
])('%s is a problem', (_, over, problem) => {
  expect(problemsOf({ ...smallest, ...over })).toContainEqual(expect.stringMatching(problem));
});

test('a prompt in one file and a system prompt in a folder do not go together', () => {
  const surfaces = { prompt: 'prompt.md', systemPrompt: 'tools' };
  expect(problemsOf({ ...smallest, repoRoot: root(), surfaces })).toEqual([expect.stringMatching(/give one of them/)]);
});

test.each([0.5, 1, 1.5])('weights that add up to %d are fine', (weight) => {
  expect(problemsOf({ ...smallest, rubric: { dimensions: [{ id: 'a', weight }] } })).toEqual([]);
});

test.each([undefined, null, 7, []])('%j is no manifest', (value) => {
  expect(problemsOf(value as never)).not.toEqual([]);
});

test('a manifest that is given to defineAgent is sent to the right place', () => {
  expect(() => defineAgent({ id: 'support', model: 'm', surfaces: {} } as never)).toThrow(
    expect.objectContaining({
      code: 'agent_manifest_invalid',
      message: expect.stringContaining('defineAgentManifest'),
    }),
  );
});
