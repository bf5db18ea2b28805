import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { runExport } from '../../src/shared/contract/archive/run-export.ts';
import { until } from '../support/redis.ts';
import { describeInBrowser, useBrowser, useConsoleWorld } from './support.ts';

const root = join(import.meta.dirname, '../..');

describeInBrowser('files that the page of a run gives', () => {
  const browser = useBrowser();
  const shared = useConsoleWorld({ env: { MILLRACE_AGENTS: join(root, 'agents') } });

  /** The page of a run that has looked something up, and a folder for what it gives. */
  async function runPage() {
    const { current: world } = shared;
    const plan = [{ calls: [{ name: 'lookup_order', args: { order: '7' } }] }, { text: 'Order 7 is on its way.' }];
    const run = await world.submit('support', plan);
    await world.ended(run);
    const opened = await browser.open({ url: world.url });
    await opened.visit(`/runs/${run.runId}`);
    const folder = mkdtempSync(join(tmpdir(), 'millrace-saved-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    keepDownloads(opened.page, folder);
    return { opened, page: opened.page, run, folder };
  }

  test('the export is one document with everything about the run', async () => {
    const { page, run, folder, opened } = await runPage();
    await page.getByRole('button', { name: 'Export' }).click();
    const name = `support-${run.runId}.export.json`;
    await until('it is saved', () => readdirSync(folder).includes(name));
    const exported = runExport.parse(JSON.parse(readFileSync(join(folder, name), 'utf8')));
    expect(exported.run).toMatchObject({ runId: run.runId, result: { text: 'Order 7 is on its way.' } });
    expect(exported.steps.steps).toHaveLength(2);
    expect(exported.events.at(-1)).toMatchObject({ type: 'run.completed' });
    expect(exported.agent).toMatchObject({ id: 'support' });
    opened.checkComplaints();
  });

  test('a run that is saved as a test passes with vitest, and fails once the agent would go another way', async () => {
    const { page, run, folder, opened } = await runPage();
    await page.getByRole('button', { name: 'Save as test' }).click();
    await page.getByText('put them beside each other').waitFor();
    const saved = [`support-${run.runId}.export.json`, `support-${run.runId}.test.ts`];
    await until('both are saved', () => saved.every((name) => readdirSync(folder).includes(name)));
    opened.checkComplaints();
    const project = projectWith(folder);
    expect(await runTests(project)).toMatchObject({ failed: false, output: expect.stringMatching(/1 passed/) });
    const agent = join(project, 'agents/support.yaml');
    writeFileSync(agent, readFileSync(agent, 'utf8').replace('briefly and politely', 'at length'));
    const changed = await runTests(project);
    expect(changed).toMatchObject({ failed: true, output: expect.stringContaining('would go another way') });
  }, 120_000);
});

/** A file is in the folder once it is whole. */
function keepDownloads(page: Page, folder: string): void {
  page.on('download', (download) => {
    const path = join(folder, download.suggestedFilename());
    void download.saveAs(`${path}.part`).then(() => renameSync(`${path}.part`, path));
  });
}

/** What people have around the files: agents, vitest, and the package, which is this checkout. */
function projectWith(saved: string): string {
  const project = mkdtempSync(join(tmpdir(), 'millrace-project-'));
  onTestFinished(() => rmSync(project, { recursive: true, force: true }));
  cpSync(saved, join(project, 'tests'), { recursive: true });
  cpSync(join(root, 'agents'), join(project, 'agents'), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(project, 'node_modules'));
  const alias = {
    'millrace/testing': join(root, 'src/testing/index.ts'),
    'millrace/worker': join(root, 'src/worker/index.ts'),
  };
  writeFileSync(join(project, 'vitest.config.mjs'), `export default ${JSON.stringify({ resolve: { alias } })};`);
  return project;
}

async function runTests(cwd: string): Promise<{ readonly failed: boolean; readonly output: string }> {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const { promise, resolve } = Promise.withResolvers<{ failed: boolean; output: string }>();
  const env = { PATH: process.env['PATH'], NO_COLOR: '1' };
  execFile(process.execPath, [vitest, 'run'], { cwd, env }, (error, stdout, stderr) =>
    resolve({ failed: error !== null, output: stdout + stderr }),
  );
  return await promise;
}
