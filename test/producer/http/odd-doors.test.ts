import { expect, test } from 'vitest';
import { oddText } from '../../support/odd.ts';
import { rounds } from '../../support/lane.ts';
import { seeded } from '../../support/seeded.ts';
import { batchIs, fileText } from '../../support/batches.ts';
import { playFleet } from '../batch/support.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

/** JSON in which the place `%s` has a text, or a key is it. */
type Place = readonly [method: 'POST', path: string, body: string];

const metadata = [`{"k":%s}`, `{%s:"v"}`];
const places: readonly Place[] = [
  ...['model', 'user', 'metadata', 'input', 'instructions', 'previous_response_id', 'conversation', '%s'].map(
    (field): Place => ['POST', '/v1/responses', `{"model":"support","input":"x","background":true,"${field}":%s}`],
  ),
  ...metadata.map((said): Place => [
    'POST',
    '/v1/responses',
    `{"model":"support","input":"x","background":true,"metadata":${said}}`,
  ]),
  ...['thread', 'queue', 'priority', 'batch', 'max_cost_usd', 'on_exceed', 'deadline_ms', 'max_steps'].map(
    (key): Place => [
      'POST',
      '/v1/responses',
      `{"model":"support","input":"x","background":true,"metadata":{"${key}":%s}}`,
    ],
  ),
  [
    'POST',
    '/v1/responses',
    `{"model":"support","background":true,"input":[{"role":"user","content":[{"type":"input_text","text":%s}]}]}`,
  ],
  [
    'POST',
    '/v1/responses',
    `{"model":"support","background":true,"input":[{"role":"assistant","content":%s},{"role":"user","content":"x"}]}`,
  ],
  [
    'POST',
    '/v1/responses',
    `{"model":"support","background":true,"input":"x","text":{"format":{"type":"json_schema","name":%s,"schema":{"type":"object","description":%s}}}}`,
  ],
  [
    'POST',
    '/v1/responses',
    `{"model":"support","background":true,"input":[{"role":"user","content":[{"type":"input_image","image_url":%s}]}]}`,
  ],
  [
    'POST',
    '/v1/responses',
    `{"model":"support","background":true,"input":[{"role":"user","content":[{"type":"input_file","file_id":%s,"filename":%s}]}]}`,
  ],
  ...['model', 'messages', 'stop', '%s'].map((field): Place => [
    'POST',
    '/v1/chat/completions',
    `{"model":"none","messages":[],"${field}":%s}`,
  ]),
  ['POST', '/v1/chat/completions', `{"model":%s,"messages":[{"role":%s,"content":%s}]}`],
  ['POST', '/v1/conversations', `{"items":[{"role":"user","content":%s}]}`],
  ['POST', '/v1/conversations', `{"items":[{"type":%s,"role":"user","content":"x"}]}`],
  ...metadata.map((said): Place => ['POST', '/v1/conversations', `{"metadata":${said}}`]),
  ...['input_file_id', 'endpoint', 'completion_window', 'name', 'agent', 'queue', 'inputTemplate', '%s'].map(
    (field): Place => [
      'POST',
      '/v1/batches',
      `{"input_file_id":"FILE","endpoint":"/v1/runs","agent":"support","${field}":%s}`,
    ],
  ),
  ...metadata.map((said): Place => [
    'POST',
    '/v1/batches',
    `{"input_file_id":"FILE","endpoint":"/v1/runs","metadata":${said}}`,
  ]),
];

const idRoutes = ['files', 'batches', 'responses', 'conversations', 'models'];

async function upload(world: ServerWorld, name: string, bytes: Buffer | string, purpose = 'batch') {
  const form = new FormData();
  form.set('purpose', purpose);
  form.set('file', new Blob([bytes]), name);
  const answer = await fetch(`${world.url}/v1/files`, { method: 'POST', body: form });
  return { status: answer.status, body: (await answer.json()) as { readonly id: string; readonly error?: unknown } };
}

test(
  'whatever text is sent to a door, it is taken or refused with an error, and every list can be read afterwards',
  { timeout: 240_000 },
  async () => {
    const random = seeded();
    const world = await serverWorld();
    const file = (await upload(world, 'lines.jsonl', '"x"\n')).body.id;
    const failures: unknown[] = [];
    const check = (
      what: unknown,
      status: number,
      body: { readonly error?: { readonly message?: unknown } } | undefined,
    ) => {
      const isRefused = status >= 400 && status < 500 && typeof body?.error?.message === 'string';
      if (status !== 200 && !isRefused) failures.push([what, status, body]);
    };
    for (let round = 0; round < rounds({ fast: 3, all: 60 }); round++)
      for (const [method, path, form] of places) {
        const text = form.replace('FILE', file).replaceAll(/"?%s"?/g, () => JSON.stringify(oddText(random)));
        const { status, body } = await world.send(method, path, text, { 'content-type': 'application/json' });
        check([path, text], status, body);
      }
    for (let round = 0; round < rounds({ fast: 6, all: 60 }); round++) {
      const odd = oddText(random);
      const { status, body } = await upload(world, odd, odd, random.below(2) ? 'batch' : odd || 'batch');
      check(['upload', odd], status, body as never);
      for (const route of idRoutes) {
        const id = encodeURIComponent(odd.toWellFormed());
        const answer = await world.send('GET', `/v1/${route}/${id}`);
        if (id !== '') check([route, odd], answer.status, answer.body);
        const listed = await world.send('GET', `/v1/${route === 'conversations' ? 'batches' : 'files'}?after=${id}`);
        check(['after', odd], listed.status, listed.body);
      }
    }
    expect(failures).toEqual([]);
    for (const list of ['/v1/files', '/v1/batches', '/v1/models', '/v1/runs', '/v1/threads'])
      expect([list, (await world.send('GET', list)).status]).toEqual([list, 200]);
  },
);

test('ten megabytes in one field are refused as too large', async () => {
  const world = await serverWorld();
  const large = 'x'.repeat(10 * 1024 * 1024);
  const asked = [
    ['/v1/responses', { model: 'support', background: true, input: large }],
    ['/v1/responses', { model: 'support', background: true, input: 'x', instructions: large }],
    ['/v1/chat/completions', { model: 'support', messages: [{ role: 'user', content: large }] }],
    ['/v1/conversations', { items: [{ role: 'user', content: large }] }],
    ['/v1/batches', { input_file_id: large, endpoint: '/v1/runs' }],
  ] as const;
  for (const [path, body] of asked) {
    const answer = await world.send('POST', path, body);
    expect([path, answer.status, typeof answer.body.error?.message]).toEqual([
      path,
      expect.toSatisfy((status) => status === 413 || status === 400),
      'string',
    ]);
  }
});

test('a batch ends whatever its lines say, with one line of output for each that is not empty', async () => {
  const random = seeded();
  const world = await serverWorld();
  await using _ = await world.mill.batches.advance({ lockDurationMs: 1_500, stalledIntervalMs: 300 });
  playFleet(world, (writer) => writer.end());
  const wire = (text: string, id: string) =>
    `{"custom_id":${id},"method":"POST","url":"/v1/responses","body":{"model":"support","input":${text},"metadata":{"k":${text}}}}`;
  const lines = [
    'x',
    'null',
    '[]',
    '{}',
    '"half',
    '{"custom_id":"a","method":"POST","url":"/v1/responses","body":null}',
    `{"__proto__":{"custom_id":"p"},"method":"POST","url":"/v1/responses","body":{"model":"support","input":"x"}}`,
    wire('"x"', '"__proto__"'),
    wire('"x"', '"constructor"'),
    '['.repeat(100_000),
    wire('"x"', '"long"').padEnd(2_000_000),
    ...Array.from({ length: 60 }, (_v, i) => wire(JSON.stringify(oddText(random)), `"odd-${i}"`)),
    ...Array.from({ length: 30 }, () => wire('"x"', JSON.stringify(oddText(random)))),
  ];
  const bytes = Buffer.concat([
    Buffer.from(`\uFEFF${lines.join('\n')}\n\n\r\n`),
    Buffer.from([0x22, 0xff, 0xfe, 0x22, 0x0a]),
    Buffer.from('"last"'),
  ]);
  const { id: file } = (await upload(world, 'lines.jsonl', bytes)).body;
  const created = await world.send('POST', '/v1/batches', { input_file_id: file, endpoint: '/v1/responses' });
  expect(created.status).toBe(200);
  const ended = await batchIs(world.mill, created.body.id, ['completed', 'failed'], 60_000);
  expect([ended.status, ended.errors]).toEqual(['completed', undefined]);
  const texts = await Promise.all(
    [ended.output_file_id, ended.error_file_id].map(async (id) =>
      id === undefined ? '' : await fileText(world.mill, id),
    ),
  );
  const rows = texts
    .join('')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { custom_id: string | null });
  expect(rows).toHaveLength(lines.length + 2);
  const named = rows.flatMap(({ custom_id: id }) => (id?.startsWith('odd-') ? [id] : []));
  expect(new Set(named).size).toBe(60);
  expect(ended.request_counts.completed + ended.request_counts.failed).toBe(rows.length);
});
