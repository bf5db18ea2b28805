import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFailed, onTestFinished, test } from 'vitest';
import type { RunRequestInput } from '../../src/producer/index.ts';
import { sha256 } from '../../src/shared/base/ids.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { millrace, settings } from '../producer/cli/support/cli-process.ts';
import { checkRun, eventsOf, observe } from '../support/check-run.ts';
import { Fleet, type WorkerChild } from '../support/fleet.ts';
import { call } from '../support/http.ts';
import { filmBytes, pictureBytes, startMediaProvider } from '../support/media-provider.ts';
import { stall } from '../support/raw-provider.ts';
import { testRedis, until } from '../support/redis.ts';

const providers = (url: string) => `
- id: studio
  kind: openai
  baseUrl: ${url}
  media:
    - { model: pic, modality: image, unitUsd: 0.04 }
    - { model: film, modality: video, unitUsd: 0.1 }
`;

/** Two agents, a provider that makes pictures and films, and workers around them. */
async function makeStudio({ workers = 1, env = {} }: { workers?: number; env?: Record<string, string> } = {}) {
  const provider = await startMediaProvider();
  const folder = mkdtempSync(join(tmpdir(), 'millrace-studio-'));
  mkdirSync(join(folder, 'agents'));
  for (const model of ['pic', 'film']) writeFileSync(join(folder, 'agents', `${model}.yaml`), `model: ${model}\n`);
  writeFileSync(join(folder, 'providers.yaml'), providers(provider.url));
  const settings = { MILLRACE_AGENTS: join(folder, 'agents'), MILLRACE_PROVIDERS: join(folder, 'providers.yaml') };
  const fleet = new Fleet({ env: { ...settings, OPENAI_API_KEY: '', ...env } });
  onTestFinished(async () => {
    await provider[Symbol.asyncDispose]();
    await fleet.dispose();
    rmSync(folder, { recursive: true });
  });
  onTestFailed(() => void process.stderr.write(`${fleet.report}\n`));
  const crew: WorkerChild[] = await Promise.all(Array.from({ length: workers }, () => fleet.startWorker()));
  return {
    provider,
    fleet,
    folder,
    crew,
    mill: fleet.mill,
    submit: async (request: RunRequestInput) => (await fleet.mill.enqueue(request)).runId,
    async ended(runId: string) {
      const observed = await observe(fleet.mill, runId, () => fleet.executions);
      checkRun(observed);
      return observed;
    },
    suspendedTimes: (runId: string, times: number) =>
      until(
        `run ${runId} waits for the ${times}. time`,
        async () => {
          const { status, lastSequence } = await fleet.mill.get(runId);
          if (status !== 'suspended') return false;
          let seen = 0;
          for await (const event of fleet.mill.events(runId)) {
            if (event.type === 'run.suspended') seen++;
            if (event.sequenceNumber >= lastSequence) break;
          }
          return seen >= times;
        },
        40_000,
      ),
  };
}

test('a picture travels as a handle, and its bytes are there for its tenant over HTTP, client and command line', async () => {
  const studio = await makeStudio();
  const keys = ['a', 'b'].map((tenant) => `${sha256(`key-of-${tenant}`)}:${tenant}`).join(',');
  const { url } = await studio.fleet.startProducer({ MILLRACE_API_KEYS: keys });
  const key = (tenant: string) => ({ authorization: `Bearer key-of-${tenant}` });
  const request = { agent: 'pic', input: 'A lighthouse.', media: { count: 2 } };
  const accepted = await call('POST', `${url}/v1/runs`, request, key('a'));
  expect(accepted.status).toBe(202);
  const { runId } = accepted.body as { runId: string };
  const ended = await call('GET', `${url}/v1/runs/${runId}/result?wait=30`, undefined, key('a'));
  expect(ended.body).toMatchObject({ status: 'completed', text: '', costMicrocents: 8_000_000 });
  const [part] = ended.body.result.media as { handle: string }[];
  const digits = String(part?.handle).slice(-64);

  const file = await fetch(`${url}/v1/media/${digits}`, { headers: key('a') });
  expect(file.headers.get('content-type')).toBe('image/png');
  expect(file.headers.get('content-security-policy')).toContain('sandbox');
  expect(Buffer.from(await file.arrayBuffer())).toEqual(pictureBytes);
  expect((await call('GET', `${url}/v1/media/${digits}`, undefined, key('b'))).body.error.code).toBe('not_found');
  expect((await call('GET', `${url}/v1/media/nonsense`, undefined, key('a'))).status).toBe(400);

  const mill = studio.mill.forTenant('a');
  expect(await mill.media(String(part?.handle))).toEqual({ mediaType: 'image/png', bytes: pictureBytes });
  await expect(studio.mill.media('media://sha256-1')).rejects.toMatchObject({ code: 'invalid_id' });
  const dump = await dumpOf(studio.fleet.prefix, studio.fleet.redisUrl);
  expect(dump).not.toContain(pictureBytes.toString('base64').slice(0, 24));
});

test('a large picture lies in the folder of files, and the producer reads it there', async () => {
  const root = mkdtempSync(join(tmpdir(), 'millrace-media-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const store = { ARTIFACT_STORE: `file:${root}` };
  const studio = await makeStudio({ env: store });
  studio.provider.picture = Buffer.concat([pictureBytes, Buffer.alloc(2_000_000, 'x')]);
  const { url } = await studio.fleet.startProducer(store);
  const { view } = await studio.ended(await studio.submit({ agent: 'pic', input: 'A lighthouse.' }));
  const digits = String(view.result?.media?.[0]?.handle).slice(-64);
  const file = await fetch(`${url}/v1/media/${digits}`);
  expect(Buffer.from(await file.arrayBuffer()).equals(studio.provider.picture)).toBe(true);
  const redis = await testRedis('work', studio.fleet.redisUrl);
  const key = keysFor(studio.fleet.prefix).media('default', digits);
  expect(await redis.memory('USAGE', key)).toBeLessThan(1_000);
  expect(readdirSync(join(root, 'files')).filter((name) => !/^(run|agent)-/.test(name))).toHaveLength(1);
});

test('the command line fetches a file and shows its handle', async () => {
  const studio = await makeStudio();
  const runId = await studio.submit({ agent: 'pic', input: 'A lighthouse.' });
  const { view } = await studio.ended(runId);
  const handle = view.result?.media?.[0]?.handle as string;
  const env = settings(studio.fleet.prefix);
  expect((await millrace(['get', runId], { env })).stdout).toContain(handle);
  const path = join(studio.folder, 'picture.png');
  expect((await millrace(['media', handle, '-o', path], { env })).code).toBe(0);
  expect(readFileSync(path)).toEqual(pictureBytes);
  expect((await millrace(['media', 'nonsense', '-o', path], { env })).code).toBe(2);
});

test('without a map of the operator the name of a picture model goes to the chat interface', async () => {
  const studio = await makeStudio({ workers: 0 });
  writeFileSync(join(studio.folder, 'providers.yaml'), providers(studio.provider.url).replace(/ {2}media:[^]*/, ''));
  await studio.fleet.startWorker();
  const { view } = await studio.ended(await studio.submit({ agent: 'pic', input: 'A lighthouse.' }));
  expect(view.result?.text).toBe('Hello.');
  expect(studio.provider.to('/images/generations')).toEqual([]);
});

test('a film is ordered once although its workers are killed, between two questions and in the middle of one', async () => {
  const studio = await makeStudio();
  const { provider, fleet } = studio;
  const runId = await studio.submit({ agent: 'film', input: 'A lighthouse.', media: { seconds: 4 } });
  await studio.suspendedTimes(runId, 1);
  await studio.crew[0]?.kill();
  provider.nextPoll = stall();
  const second = await fleet.startWorker();
  await until('the second worker asks', () => provider.to('/videos/video_1').length === 1);
  await second.kill();
  await fleet.startWorker();
  const observed = await studio.ended(runId);
  expect(observed.view).toMatchObject({ status: 'completed', costMicrocents: 40_000_000 });
  expect(observed.view.result?.media).toMatchObject([{ type: 'video', mediaType: 'video/mp4' }]);
  expect(provider.to('/videos')).toHaveLength(1);
  expect(provider.to('/videos')[0]?.body).toEqual({ model: 'film', prompt: 'A lighthouse.', seconds: '4' });
  expect(eventsOf(observed, 'cost.updated')).toHaveLength(1);
  expect((await studio.mill.media(observed.view.result?.media?.[0]?.handle as string)).bytes).toEqual(filmBytes);
});

async function dumpOf(prefix: string, url: string): Promise<string> {
  const redis = await testRedis('work', url);
  const texts: string[] = [];
  for (const key of await redis.keys(`${prefix}:*`)) {
    if (key.includes('{media:')) continue;
    texts.push(String(await redis.dumpBuffer(key)));
  }
  return texts.join('\n');
}
