import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { millraceProcess } from './support/cli-process.ts';

test('the sample agents have no problem', async () => {
  const { code, stdout, stderr } = await millraceProcess(['agents', 'check', 'agents', '--json']);
  expect(stderr).toBe('');
  expect((JSON.parse(stdout) as { id: string }[]).map(({ id }) => id).toSorted()).toEqual([
    'refunds',
    'summarise',
    'support',
  ]);
  expect(code).toBe(0);
});

function agentsFolder(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

const lookup = `import { defineTool } from 'millrace/worker';
import { z } from 'zod';
export default defineTool({ name: 'lookup_order', description: 'd', inputSchema: z.object({}), execute: () => ({}) });
`;
const refunds = '---\nname: refunds\ndescription: How to refund.\n---\nPay it back.\n';
const builtins = 'ask_user, http_request, read_file, progress_write, progress_read';

test('every problem of a folder is reported at once, with file, line and the name that was probably meant', async () => {
  const folder = agentsFolder({
    'tools/lookup.ts': lookup,
    'skills/refunds/SKILL.md': refunds,
    'support.yaml': [
      'model: gpt-5.2-mni',
      'modle: x',
      'tools: [lookup_ordr]',
      'skills:',
      '  - refund',
      'limits: { maxStep: 3 }',
      'handoffs: [biling]',
      'fallbackModels: [{ provider: opnai, model: gpt-5.2-nano }]',
      '',
    ].join('\n'),
    'billing.yaml': 'model: gpt-5.2-mini\nhandoffs: [suport]\n',
    'unnamed.yaml': 'tools: [missing]\nmodel: 7\n',
  });
  const { code, stdout, stderr } = await millraceProcess(['agents', 'check', folder], {
    env: { OPENAI_API_KEY: 'sk-none', DATA_FLOW_MODE: 'shadow' },
  });
  // Each file as it is opened from here.
  const found = stderr.replaceAll(`${folder}/`, '').split('\n').filter(Boolean);
  expect(stderr).toContain(`${folder}/support.yaml:2: modle`);
  expect(new Set(found)).toEqual(
    new Set([
      'warning: support.yaml:1: model gpt-5.2-mni has no known price, so its calls count as free; did you mean gpt-5.2-mini?',
      'billing.yaml:2: handoffs: there is no agent suport; did you mean support?; known are billing, support, unnamed',
      'support.yaml:2: modle: is not a known field; did you mean model?',
      `support.yaml:3: there is no tool lookup_ordr; did you mean lookup_order?; known are lookup_order, ${builtins}`,
      'support.yaml:5: there is no skill refund; did you mean refunds?; known are refunds',
      'support.yaml:7: handoffs: there is no agent biling; did you mean billing?; known are billing, support, unnamed',
      'support.yaml:6: limits.maxStep: is not a known field; did you mean maxSteps?',
      'support.yaml:8: fallbackModels: no provider serves model gpt-5.2-nano of provider opnai; did you mean openai?',
      'unnamed.yaml:2: model: must be a text, not a number',
      `unnamed.yaml:1: there is no tool missing; known are lookup_order, ${builtins}`,
    ]),
  );
  expect(stdout).toBe('billing  model gpt-5.2-mini  tools none  data flow shadow\n');
  expect(code).toBe(2);
});

test('what is only odd is a warning, and no failure', async () => {
  const folder = agentsFolder({ 'a.yaml': 'model: llama-at-home\n' });
  const { code, stderr } = await millraceProcess(['agents', 'check', folder]);
  expect([code, stderr]).toEqual([
    0,
    `warning: ${folder}/a.yaml:1: model llama-at-home has no known price, so its calls count as free\n`,
  ]);
});
