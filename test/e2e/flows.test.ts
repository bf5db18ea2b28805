import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { keysFor } from '../../src/shared/state/keys.ts';
import { millrace } from '../producer/cli/support/cli-process.ts';
import { call } from '../support/http.ts';
import { passage } from '../support/page.ts';
import { testRedis, until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const env = { MILLRACE_AGENTS: join(import.meta.dirname, '../fixtures/flow-agents') };
const shared = shareWorld({ producer: true, env });

beforeEach(() => void shared.world.provider.words.set('passage', passage));

/** A mail with a passage of the page, and a form that has it as a value under a name that is one, too. */
const steps = [
  { calls: [{ name: 'fetch_page' }] },
  {
    calls: [
      { name: 'send_mail', args: { body: 'News: %passage!' } },
      { name: 'post_form', args: { fields: { '%passage': '%passage' } } },
    ],
  },
  { text: 'Done.' },
];

/** Everything by which the audit of a run is seen, as one text, and as the commands and routes have it. */
async function seen(runId: string) {
  const { world } = shared;
  const { redisUrl, prefix } = world.fleet;
  const redis = await testRedis('work', redisUrl);
  const cliEnv = { REDIS_URL: redisUrl, MILLRACE_PREFIX: prefix };
  const raw = await redis.xrange(keysFor(prefix).audit('default'), '-', '+');
  const [list, report] = await Promise.all(
    [`/v1/flows?run=${runId}`, '/v1/flows/report'].map((path) => call('GET', world.url + path)),
  );
  const commands = [['--run', runId], ['--json'], ['report'], ['report', '--json']];
  const printed = await Promise.all(commands.map((args) => millrace(['flows', ...args], { env: cliEnv })));
  const texts = [raw, list, report, ...printed].map((one) => JSON.stringify(one));
  return { text: texts.join('\n'), list: list?.body.flows, report: report?.body, table: printed[0]?.stdout ?? '' };
}

test.each([
  ['shadow', 'flagged'],
  ['enforce', 'blocked'],
])(
  'in %s calls are %s in the list, the report and the terminal, which never show what was in them',
  async (mode, decision) => {
    const run = await shared.world.submit(`form-${mode}`, steps);
    await run.result();
    const { text, list, report, table } = await seen(run.runId);
    const rule = { decision, mode, agent: `form-${mode}`, rule: 'untrusted-to-sink' };
    const source = { name: 'fetch_page', trust: 'external' };
    const of = (argument: string) => ({ rule: 'untrusted-to-sink', argument, source });
    expect(list.toReversed()).toMatchObject([
      { ...rule, toolName: 'send_mail', findings: expect.arrayContaining([of('body')]) },
      { ...rule, toolName: 'post_form', findings: expect.arrayContaining([of('fields.*')]) },
    ]);
    const row = { arguments: ['body'], sources: ['fetch_page'], rules: expect.arrayContaining(['untrusted-to-sink']) };
    expect(report.tools).toContainEqual(expect.objectContaining({ tool: 'send_mail', ...row }));
    expect(table).toMatch(new RegExp(`form-${mode} +send_mail +body +fetch_page +untrusted-to-sink.* ${decision}\n`));
    // The page has the words, and the run its arguments.
    expect(text).not.toContain('harbour');
    expect(text).not.toContain('night clerk');
  },
);

test('a question to a person and the answer are entries with who gave it, and the value is in neither', async () => {
  const { world } = shared;
  const run = await world.submit('form-confirm', steps);
  const { pending } = await until('the run waits', async () => {
    const view = await run.get();
    return view.status === 'suspended' ? view : undefined;
  });
  expect(JSON.stringify(pending)).toContain('harbour');
  const decisions = { send_mail: true, post_form: false };
  const approvals = (pending ?? []).map(({ toolName, toolCallId = '' }) => {
    return { toolCallId, granted: decisions[toolName as keyof typeof decisions] };
  });
  await world.mill.decide(run.runId, { approvals }, { by: 'ada' });
  await run.result();
  const { text, list, report } = await seen(run.runId);
  const rows = list.map((entry: Record<string, string>) => [entry['toolName'], entry['decision'], entry['by']]);
  expect(rows.toSorted()).toEqual([
    ['post_form', 'asked', undefined],
    ['post_form', 'blocked', 'ada'],
    ['send_mail', 'asked', undefined],
    ['send_mail', 'declassified', 'ada'],
  ]);
  expect(report.totals).toMatchObject({ asked: 2, granted: 1, denied: 1 });
  expect(text).not.toContain('harbour');
});
