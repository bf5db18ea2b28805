import { expect, test } from 'vitest';
import { runWithFlows, runWithLeak } from '../support/flows.ts';
import { clientWorld, type ClientWorld } from './options/client.ts';
import { commands, CliCommand, millrace, settings } from './support/cli-process.ts';

const day = 86_400_000;

async function run({ prefix }: ClientWorld, ...args: string[]) {
  return await millrace(['flows', ...args], { env: settings(prefix) });
}

test('flows are listed with when, where, what, from where, by which rule and what was decided', async () => {
  const world = await clientWorld();
  const source = { name: 'mcp:crm/notes', trust: 'mcp-derived' } as const;
  const findings = [
    { rule: 'argument-origin', argument: 'items.0.iban', source },
    { rule: 'untrusted-value', argument: 'items.0.iban', source },
  ] as const;
  const runId = await runWithFlows(world, [
    {},
    {
      toolName: 'p\u001b[2Jay',
      rule: 'argument-origin',
      findings,
      decision: 'declassified',
      mode: 'confirm',
      by: 'kim',
    },
  ]);
  const { code, stdout } = await run(world);
  expect(code).toBe(0);
  const [head, newest, oldest] = stdout.split('\n').map((line) => line.split(/ {2,}/));
  expect(head).toEqual(['FOUND (UTC)', 'RUN', 'AGENT', 'TOOL', 'ARGUMENT', 'SOURCE', 'RULE', 'DECISION']);
  const when = expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
  const rules = 'argument-origin, untrusted-value';
  expect(newest).toEqual([when, runId, 'support', 'p[2Jay', 'items.0.iban', source.name, rules, 'declassified by kim']);
  expect(oldest).toEqual([when, runId, 'support', 'send_mail', 'to', 'web_fetch', 'untrusted-value', 'flagged']);
});

test('flows are filtered, limited, and printed as JSON', async () => {
  const world = await clientWorld();
  const runId = await runWithFlows(world, [{ agoMs: 2 * day }, { agoMs: 0, decision: 'blocked', toolName: 'pay' }]);
  const calls = async (...args: string[]) => {
    const { stdout } = await run(world, '--json', ...args);
    return (JSON.parse(stdout) as { toolCallId: string }[]).map(({ toolCallId }) => toolCallId);
  };
  expect(await calls()).toEqual(['call-1', 'call-0']);
  expect(await calls('--decision', 'blocked')).toEqual(['call-1']);
  expect(await calls('--tool', 'pay', '--rule', 'untrusted-value', '--agent', 'support')).toEqual(['call-1']);
  expect(await calls('--since', '1d')).toEqual(['call-1']);
  expect(await calls('--until', 'yesterday')).toEqual(['call-0']);
  expect(await calls('--run', runId.slice(0, 20))).toEqual(['call-1', 'call-0']);
  expect(await calls('--kind', 'leak')).toEqual([]);
  const { stderr } = await run(world, '--limit', '1');
  expect(stderr).toBe('There may be more: --limit 2\n');
  expect((await run(world, '--tool', 'none')).stderr).toBe('Nothing was found.\n');
});

test('an entry is there by the whole id of a run that is gone', async () => {
  const world = await clientWorld();
  const runId = await runWithFlows(world, [{}]);
  await world.redis.del(world.keys.run(runId), world.keys.events(runId));
  const { code, stdout } = await run(world, '--run', runId);
  expect([code, stdout.includes(runId)]).toEqual([0, true]);
});

test('--follow prints what is there, and each entry once as it comes', async () => {
  const world = await clientWorld();
  await runWithFlows(world, [{}]);
  const following = new CliCommand(['flows', '--follow'], { env: settings(world.prefix) });
  await following.says('send_mail');
  const lines = new CliCommand(['flows', '--follow', '--json', '--tool', 'pay'], { env: settings(world.prefix) });
  await lines.says('Ctrl-C ends it');
  await runWithFlows(world, [{ toolName: 'pay' }, { toolName: 'export' }, { toolName: 'pay' }]);
  await following.says('export');
  await lines.says(/"call-2"/);
  await runWithFlows(world, [{ toolName: 'pay', toolCallId: 'last' }]);
  await lines.says('"last"');
  await following.says(/pay[^]*pay[^]*pay/);
  for (const each of [following, lines]) each.signal('SIGINT');
  expect([await following.exited, await lines.exited]).toEqual([130, 130]);
  expect(following.stdout.match(/send_mail|pay|export/g)).toEqual(['send_mail', 'pay', 'export', 'pay', 'pay']);
  const printed = lines.stdout.trimEnd().split('\n');
  expect(printed.map((line) => JSON.parse(line).toolCallId)).toEqual(['call-0', 'call-2', 'last']);
  const refused = await run(world, '--follow', '--until', 'today');
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('--follow shows what comes')]);
});

test('the report has a row for each tool and says what enforce would have stopped', async () => {
  const world = await clientWorld();
  await runWithFlows(world, [{ agoMs: 9 * day }, { agoMs: day }, { agoMs: day }, { agoMs: 0, toolName: 'pay' }]);
  await runWithFlows(world, [{ decision: 'blocked', toolName: 'pay', mode: 'enforce' }]);
  const { code, stdout, stderr } = await run(world, 'report');
  expect(code).toBe(0);
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/));
  const counted = ['FLAGGED', 'BLOCKED', 'ASKED', 'GRANTED', 'DENIED', 'DECLASSIFIED', 'RUNS'];
  expect(lines[0]).toEqual(['TOOL', ...counted, 'RULES', 'ARGUMENTS', 'SOURCES', 'LAST (UTC)']);
  const when = expect.any(String);
  const why = ['untrusted-value', 'to', 'web_fetch', when];
  expect(lines.slice(1, 3).toSorted((a, b) => (a[0] ?? '').localeCompare(b[0] ?? ''))).toEqual([
    ['pay', '1', '1', '0', '0', '0', '0', '2', ...why],
    ['send_mail', '2', '0', '0', '0', '0', '0', '1', ...why],
  ]);
  expect(stdout).toMatch(
    /\nSince \S+ \S+ \(UTC\) `enforce` would have stopped 3 calls of 2 tools\. It did stop 1 call\.\n$/,
  );
  expect(stderr).toMatch(/^Entries reach back to /);
  const { totals } = JSON.parse((await run(world, 'report', '--since', '30d', '--json')).stdout);
  expect(totals).toMatchObject({ flagged: 4, blocked: 1, runs: 2 });
});

test('leaks between agents have a row, and a note below the report', async () => {
  const world = await clientWorld();
  const runId = await runWithLeak(world);
  const { stdout } = await run(world, '--kind', 'leak');
  expect(stdout.split('\n')[1]).toMatch(new RegExp(`${runId} +support +leak: child-answer +blocked$`));
  expect((await run(world, 'report')).stderr).toContain('Leaks between agents: 1. `millrace flows --kind leak`');
});

test('a report without findings says so, and times that make no sense are refused', async () => {
  const world = await clientWorld();
  const { stdout, stderr } = await run(world, 'report');
  expect(stdout).toMatch(/`enforce` would have stopped no call that ran in `shadow`\.\n$/);
  expect(stderr).toContain('There are no entries');
  const old = await run(world, 'report', '--since', '60d');
  expect([old.code, old.stderr]).toEqual([2, expect.stringContaining('the last 30 days')]);
  expect((await run(world, 'report', '--since', 'soon')).stderr).toContain('Not a time');
});

test.skipIf(commands.speakHttp)('flows of another tenant are not shown', async () => {
  const world = await clientWorld();
  await runWithFlows({ ...world, mill: world.mill.forTenant('shop') }, [{}]);
  expect((await run(world)).stderr).toBe('Nothing was found.\n');
  expect((await run(world, '--tenant', 'shop')).stdout).toContain('send_mail');
  expect((await run(world, 'report', '--tenant', 'shop')).stdout).toContain('1 call of 1 tool');
});
