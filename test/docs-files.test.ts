import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, test } from 'vitest';
import { fileView, maxFileBytesInRedis, maxTenantFileBytesInRedis } from '../src/shared/contract/files.ts';
import { configSchema } from '../src/shared/contract/config.ts';
import { millrace, settings } from './producer/cli/support/cli-process.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { argumentsOf, docsPage, pageCommands, pageFolder } from './support/docs-page.ts';
import { childEnv } from './support/child-env.ts';
import { codeBlocks } from './support/markdown.ts';
import { root } from './support/scratch-redis.ts';

const page = docsPage('files.md');

test('the requests and commands of the page about files do what it says', async () => {
  const { url, mill, prefix } = await serverWorld();
  const folder = pageFolder();
  writeFileSync(join(folder, 'questions.jsonl'), '{"input":"a"}\n');
  const [upload = '', list = ''] = pageCommands(page, 'curl');
  const form = new FormData();
  for (const [, name = '', value = ''] of upload.matchAll(/-F (\w+)=(\S+)/g))
    if (value.startsWith('@')) form.append(name, new File(['{"input":"a"}\n'], value.slice(1)));
    else form.append(name, value);
  const posted = await fetch(`${url}/v1/files`, { method: 'POST', body: form });
  const made = fileView.parse(await posted.json());
  const asked = argumentsOf(list).find((arg) => arg.startsWith('http')) ?? '';
  expect(await (await fetch(asked.replace('http://127.0.0.1:8080', url))).json()).toMatchObject({ data: [made] });
  for (const command of pageCommands(page, 'millrace')) {
    const { code, stderr } = await millrace(argumentsOf(command), { cwd: folder, env: settings(prefix) });
    expect([command, code, stderr]).toEqual([command, 0, expect.not.stringContaining('error')]);
  }
  expect((await mill.files.list()).data).toHaveLength(2);
});

test('the file on the page is one as the producer shows it', () => {
  const [shown = ''] = codeBlocks(page, 'json');
  expect(fileView.strict().parse(JSON.parse(shown))).toEqual(JSON.parse(shown));
});

test('the programs of the page upload a file and read it', async () => {
  const { url, prefix } = await serverWorld();
  const folder = pageFolder({ inCheckout: true });
  writeFileSync(join(folder, 'questions.jsonl'), '{"input":"a"}\n');
  const programs = [...codeBlocks(page, 'ts'), ...codeBlocks(page, 'js')];
  expect(programs).toHaveLength(2);
  for (const [index, code] of programs.entries()) {
    const file = join(folder, `program${index}.ts`);
    writeFileSync(file, code.replace('http://127.0.0.1:8080', url));
    const env = childEnv({ REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: prefix });
    const args = ['--import', join(root, 'scripts/resolve-source.mjs'), file];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env });
    expect(stdout.trim()).toBe('{"input":"a"}');
  }
});

test('the bounds on the page are those of the code', () => {
  const { FILES_MAX_BYTES_PER_TENANT } = configSchema.parse({});
  expect(page).toContain(`\`FILES_MAX_BYTES_PER_TENANT\`, ${FILES_MAX_BYTES_PER_TENANT / 2 ** 30} GiB`);
  expect(page).toContain(`never more than ${maxTenantFileBytesInRedis / 2 ** 20} MiB`);
  expect(page).toContain(`${maxFileBytesInRedis / 2 ** 20} MiB where \`ARTIFACT_STORE\` is \`redis\``);
});
