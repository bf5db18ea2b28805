import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import {
  inputFileTtlS,
  maxInputFileBytes,
  maxInputFiles,
  maxInputFilesBytes,
  maxTextFileBytes,
} from '../src/shared/contract/input-parts.ts';
import { configSchema, parseConfig } from '../src/shared/contract/config.ts';
import { createProviders } from '../src/worker/llm/backends/providers.ts';
import {
  argumentsOf,
  docsPage,
  pageAgents,
  pageCommands,
  pageFiles,
  pageFolder,
  requestOf,
} from './support/docs-page.ts';
import { fixtureFile } from './support/input-files.ts';
import { firstCells } from './support/markdown.ts';
import { testPrefix } from './support/redis.ts';
import { millrace } from './producer/cli/support/cli-process.ts';
import { serverWorld } from './producer/http/server-world.ts';

const page = docsPage('files-as-input.md');
const mebibyte = 1024 * 1024;

test('the command of the page uploads its file and starts a run with it', async () => {
  const folder = pageFolder();
  writeFileSync(join(folder, 'invoice.pdf'), fixtureFile('invoice.pdf'));
  const env = { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: testPrefix() };
  const [command = ''] = pageCommands(page, 'millrace');
  const args = argumentsOf(command.replace('invoice.pdf', join(folder, 'invoice.pdf')));
  expect(await millrace([...args, '--detach'], { env })).toMatchObject({ code: 0 });
});

test('the request of the page is one that the producer takes', async () => {
  const { send } = await serverWorld();
  const [command = ''] = pageCommands(page, 'curl');
  const { method, path, headers, body } = requestOf(command);
  const answer = await send(method, path, body, headers);
  expect([answer.status, answer.body.error]).toEqual([202, undefined]);
});

test('the files of the page are read as it says', async () => {
  const yaml = page.replaceAll(/```ts\n[^]*?```/g, '');
  const { folder, names } = pageFiles(yaml);
  expect(names).toEqual(['providers-input.yaml', 'agents/clerk.yaml']);
  const config = parseConfig({ MILLRACE_PROVIDERS: join(folder, 'providers-input.yaml') });
  const providers = createProviders(config, () => undefined);
  const reads = (model: string) => providers.providerFor(model)?.provider.inputOf?.(model);
  expect([reads('llava'), reads('qwen3')]).toEqual([['text', 'image'], ['text']]);
  const { agents, problems } = await pageAgents(folder);
  expect([problems, agents.get('clerk')?.definition.inputFiles]).toEqual([[], { trust: 'user' }]);
});

test('the bounds of the page are those of the code, and so are the ways with URLs', () => {
  const text = page.replaceAll(/\s+/g, ' ');
  expect(text).toContain(
    `A run takes ${maxInputFiles} files of at most ${maxInputFileBytes / mebibyte} MiB each and ${maxInputFilesBytes / mebibyte} MiB together; a text file at most ${maxTextFileBytes / mebibyte} MiB`,
  );
  expect(text).toContain(`are kept for ${inputFileTtlS / 86_400} days after their last use`);
  expect(firstCells(page, 'URLs')).toEqual(configSchema.shape.INPUT_URLS.unwrap().options);
});
