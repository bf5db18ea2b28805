import { describe, expect, test } from 'vitest';
import { commandOf } from '../../../src/producer/cli/chat/command.ts';
import { keysFor } from '../../../src/shared/state/keys.ts';
import { planInput, type PlannedStep } from '../../support/plan.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { testRedis, until } from '../../support/redis.ts';
import { makeWorld, shareWorld, type World } from '../../support/world.ts';
import { clientWorld } from './options/client.ts';
import { aThread } from '../support/threads.ts';
import { CliCommand, CliProcess, millrace, settings, type CliOptions } from './support/cli-process.ts';
import { ctrlC, ctrlD, FakeTerminal } from './support/fake-terminal.ts';

const shared = shareWorld();

const envOf = ({ fleet }: World) => settings(fleet.prefix, { REDIS_URL: fleet.redisUrl });

/** A chat whose lines all come from a pipe. Steps that are given stand for a message with that plan. */
async function piped(args: readonly string[], ...lines: readonly (string | PlannedStep)[]) {
  const input = lines.map((line) => `${typeof line === 'string' ? line : planInput(line)}\n`).join('');
  return await millrace(['chat', ...args], { env: envOf(shared.world), input });
}

/** A chat whose lines come one by one; with `--busy` they take effect at once, as at a terminal. */
function typing(world: World, args: readonly string[], options: CliOptions = {}): CliCommand {
  return new CliCommand(['chat', ...args], { env: envOf(world), keepsInput: true, ...options });
}

/** What the model was sent for the last run of a thread, without system text. */
async function lastSent(world: World, thread: string) {
  const runId = (await world.mill.list({ thread })).runs[0]?.runId ?? '';
  return world.provider
    .callsOf(runId)
    .at(-1)
    ?.messages.filter(({ role }) => role !== 'system');
}

const paused = (gate: string): PlannedStep => ({ text: 'one two', hold: { gate, afterPieces: 1 } });
const charge = planInput({ calls: [{ name: 'charge', args: { id: 'c' } }] }, { text: 'paid' });

describe('from a pipe', () => {
  test('each line is a message of one thread, and the model sees the earlier ones', async () => {
    const { code, stdout, stderr } = await piped(['plain'], { text: 'first' }, '', { text: 'second' });
    expect([code, stdout]).toEqual([0, 'first\nsecond\n']);
    const [, thread = ''] =
      /^Go on with this thread: node bin\/millrace\.mjs chat plain --thread ([0-9a-f]{12})$/m.exec(stderr) ?? [];
    expect(stderr).toContain(`Thread ${thread}. /help lists the commands.\n`);
    expect(await lastSent(shared.world, thread)).toMatchObject([
      { role: 'user', content: planInput({ text: 'first' }) },
      { role: 'assistant', content: 'first' },
      { role: 'user', content: planInput({ text: 'second' }) },
    ]);
    expect((await shared.world.mill.list({ thread })).runs).toHaveLength(2);
    const again = await piped(['plain', '--thread', thread, '--last', '3'], { text: 'third' });
    expect(again.stdout).toMatch(
      /assistant .*\nfirst\n\n\d+ {2}user .*\n.*second.*\n\n\d+ {2}assistant .*\nsecond\n\nthird\n$/,
    );
    expect(again.stdout).not.toContain('text":"first');
  });

  test('a line waits for the answer before it', async () => {
    const { world } = shared;
    const chat = typing(world, ['plain', '--thread', 'waits']);
    chat.type(planInput(paused('waits')), planInput({ text: 'second' }));
    chat.endInput();
    await chat.says('one ');
    world.provider.gates.open('waits');
    expect([await chat.exited, chat.stdout]).toEqual([0, 'one two\nsecond\n']);
    expect((await world.mill.list({ thread: 'waits' })).runs).toHaveLength(2);
  });

  test('--json prints events and messages, one a line', async () => {
    const thread = 'as-json';
    await piped(['plain', '--thread', thread], { text: 'first' });
    const { stdout } = await piped(['plain', '--thread', thread, '--last', '2', '--json'], { text: 'second' });
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { type?: string; kind?: string; threadId?: string });
    expect(lines.slice(0, 2).map(({ kind }) => kind)).toEqual(['message', 'message']);
    const types = lines.slice(2).map(({ type }) => type);
    expect([types[0], types.at(-1)]).toEqual(['run.queued', 'run.completed']);
    expect(new Set(lines.slice(2).map(({ threadId }) => threadId))).toEqual(new Set([thread]));
  });

  test('a call is approved, another one denied, with one line each', async () => {
    const { code, stdout, stderr } = await piped(['gated'], charge, '/approve', charge, '/deny not today');
    expect([code, stdout]).toEqual([0, 'paid\npaid\n']);
    expect(stderr).toContain('→ charge {"id":"c"}');
    expect(stderr).toContain('/approve lets charge run, /deny REASON does not.');
    expect(stderr).toContain('not today');
    const runs = shared.world.fleet.executions.filter(({ tool }) => tool === 'charge');
    expect(runs).toHaveLength(1);
  });

  test('the next line answers a question, and is no message', async () => {
    const ask = planInput({ calls: [{ name: 'ask_user', args: { question: 'Which colour?' } }] }, { text: 'noted' });
    const { code, stdout, stderr } = await piped(['gated', '--thread', 'asks'], ask, 'the blue one');
    expect([code, stdout]).toEqual([0, 'noted\n']);
    expect(stderr).toContain('Which colour?\nYour next line answers it.\n');
    const sent = await lastSent(shared.world, 'asks');
    expect(sent?.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(String(sent?.[2]?.content)).toContain('the blue one');
  });

  test('a call of a child is approved in the chat with its parent', async () => {
    const asks = planInput(
      { calls: [{ name: 'ask_agent', args: { agent: 'gated', message: charge } }] },
      { text: 'so' },
    );
    const { code, stdout, stderr } = await piped(['asker'], asks, '/approve');
    expect([code, stdout]).toEqual([0, 'so\n']);
    expect(stderr).toContain('/approve lets charge run');
  });

  test('the exit code is that of the last answer', async () => {
    const failing: PlannedStep = { text: 'x', faults: [{ kind: 'status', status: 401 }] };
    expect((await piped(['plain'], failing, { text: 'fine' })).code).toBe(0);
    const { code, stderr } = await piped(['plain'], { text: 'fine' }, failing);
    expect(code).toBe(1);
    expect(stderr).toContain('failed: provider_');
  });

  test('commands name, change and leave the thread', async () => {
    const { code, stdout, stderr } = await piped(
      ['plain', '--thread', 'named'],
      { text: 'first' },
      '/title About order 7',
      '/new',
      { text: 'second' },
      '/quit',
      { text: 'never' },
    );
    expect([code, stdout]).toEqual([0, 'first\nsecond\n']);
    expect(await shared.world.mill.threads.get('named')).toMatchObject({ title: 'About order 7' });
    const [, other = ''] = /^Thread ([0-9a-f]{12})\.$/m.exec(stderr) ?? [];
    expect(stderr).toContain(`--thread ${other}\n`);
    expect((await lastSent(shared.world, other))?.length).toBe(1);
  });

  test.each([
    ['/nonsense', 'there is no command /nonsense'],
    ['/title', '/title needs a text'],
    ['/quit now', '/quit takes nothing after it'],
    ['/approve', 'nothing waits for a decision'],
    ['/cancel', 'no answer is under way'],
    ['/title too early', 'there is no thread'],
  ])('%s is refused, and what follows is taken', async (line, says) => {
    const refused = await piped(['plain'], line, { text: 'fine' });
    expect([refused.code, refused.stdout]).toEqual([0, 'fine\n']);
    expect(refused.stderr).toContain(says);
    expect((await piped(['plain'], line)).code).not.toBe(0);
  });

  test('/help lists every command, and two slashes say one', async () => {
    const { stderr } = await piped(['plain'], '/help');
    for (const name of ['approve', 'deny', 'cancel', 'title', 'new', 'quit', 'help'])
      expect(stderr).toMatch(new RegExp(`^/${name}( [A-Z]+)? {2,}\\w`, 'm'));
    expect(commandOf('//etc/hosts is empty')).toEqual({ kind: 'send', text: '/etc/hosts is empty' });
  });

  test('an unknown agent, another one’s thread and wrong options are refused before anything is read', async () => {
    const { world } = shared;
    await piped(['plain', '--thread', 'taken'], { text: 'mine' });
    for (const [args, says] of [
      [['unknown'], 'there is no agent unknown; known are '],
      [['gated', '--thread', 'taken'], 'thread taken belongs to agent plain, not to gated'],
      [['plain', '--thread', 'no spaces'], 'a thread id is'],
      [['plain', '--nope'], "unknown option '--nope'"],
      [['plain', '--busy', 'wait'], "argument 'wait' is invalid"],
      [['plain', '--max-cost', 'cheap'], 'Not a number above 0.'],
      [['plain', '--last', '0'], 'Not a whole number'],
    ] as const) {
      const { code, stdout, stderr } = await millrace(['chat', ...args], { env: envOf(world), input: 'hello\n' });
      expect([args, code, stdout]).toEqual([args, 2, '']);
      expect(stderr).toContain(says);
      expect(stderr).not.toContain('/help');
    }
  });

  test('--max-cost bounds each answer', async () => {
    const { code, stderr } = await piped(['plain', '--max-cost', '0.0000001'], { text: 'too dear' });
    expect(code).toBe(1);
    expect(stderr).toContain('budget_exceeded');
  });

  test('Ctrl-C cancels the answer and ends the chat with it', async () => {
    const { world } = shared;
    const chat = typing(world, ['plain', '--thread', 'stopped']);
    chat.type(planInput(paused('stopped')), planInput({ text: 'never' }));
    await chat.says('one ');
    chat.signal('SIGINT');
    expect(await chat.exited).toBe(130);
    expect(chat.stderr).toContain('cancelled');
    expect(chat.stderr).toContain('--thread stopped\n');
    const { runs } = await world.mill.list({ thread: 'stopped' });
    expect(runs.map(({ status }) => status)).toEqual(['cancelled']);
  });

  test('SIGTERM releases the answer, which goes on', async () => {
    const { world } = shared;
    const chat = new CliProcess(['chat', 'plain', '--thread', 'let-go'], { env: envOf(world), keepsInput: true });
    chat.type(planInput(paused('let-go')));
    await chat.says('one ');
    chat.signal('SIGTERM');
    expect(await chat.exited).toBe(130);
    const runId = (await world.mill.list({ thread: 'let-go' })).runs[0]?.runId ?? '';
    expect(chat.stderr).toContain(`The answer continues: node bin/millrace.mjs tail ${runId} `);
    world.provider.gates.open('let-go');
    expect((await world.mill.result(runId)).status).toBe('completed');
  });

  test('where no worker runs, a note gives advice', async () => {
    const { prefix } = await clientWorld();
    const chat = new CliCommand(['chat', 'support'], { env: settings(prefix), input: 'hello\n' });
    await chat.says('No worker is running');
    expect(chat.stdout).toBe('');
  });
});

describe('while an answer is under way', () => {
  test('steer: a message reaches the next step of the answer', async () => {
    const { world } = shared;
    const chat = typing(world, ['plain', '--busy', 'steer', '--thread', 'steered']);
    chat.type(planInput(paused('steered')));
    await chat.says('one ');
    chat.type(planInput({ text: 'changed' }));
    const redis = await testRedis('work', world.fleet.redisUrl);
    const runId = (await world.mill.list({ thread: 'steered' })).runs[0]?.runId ?? '';
    await until('the message is in the inbox', () => redis.llen(keysFor(world.fleet.prefix).inbox(runId)));
    world.provider.gates.open('steered');
    chat.endInput();
    expect(await chat.exited).toBe(0);
    expect(chat.stdout).toBe('one two\nchanged\n');
    expect(chat.stderr).toContain('message: [{"text":"changed"}]');
    expect((await world.mill.list({ thread: 'steered' })).runs).toHaveLength(1);
  });

  test('steer: what comes too late is followed as the next answer', async () => {
    const { world } = shared;
    const chat = typing(world, ['plain', '--busy', 'steer', '--thread', 'late']);
    chat.type(planInput(paused('late')));
    await chat.says('one ');
    chat.type(planInput({ text: 'after all' }), '/cancel');
    chat.endInput();
    expect(await chat.exited).toBe(0);
    expect(chat.stdout).toBe('one \nafter all\n');
    const { runs } = await world.mill.list({ thread: 'late' });
    expect(runs.map(({ status }) => status)).toEqual(['completed', 'cancelled']);
  });

  test('interrupt: the newer message is answered in place of the older one', async () => {
    const { world } = shared;
    const chat = typing(world, ['plain', '--busy', 'interrupt', '--thread', 'interrupted']);
    chat.type(planInput(paused('interrupted')));
    await chat.says('one ');
    chat.type(planInput({ text: 'newer' }));
    chat.endInput();
    expect(await chat.exited).toBe(0);
    expect(chat.stdout).toBe('one \nnewer\n');
    expect(chat.stderr).toMatch(/cancelled \(run \w+ interrupts it\)/);
  });

  test('queue: messages are answered one after the other; reject: a second one is refused', async () => {
    const { world } = shared;
    const queueing = typing(world, ['plain', '--busy', 'queue']);
    const rejecting = typing(world, ['plain', '--busy', 'reject']);
    for (const chat of [queueing, rejecting]) {
      chat.type(planInput(paused('both')));
      await chat.says('one ');
      chat.type(planInput({ text: 'second' }));
    }
    await rejecting.says('concurrent_run: run ');
    await until('the second waits', async () => (await world.mill.list({ status: 'queued' })).runs.length === 1);
    world.provider.gates.open('both');
    for (const chat of [queueing, rejecting]) chat.endInput();
    expect([await queueing.exited, queueing.stdout]).toEqual([0, 'one two\nsecond\n']);
    expect([await rejecting.exited, rejecting.stdout]).toEqual([0, 'one two\n']);
  });

  test('/cancel stops the answer, and the conversation goes on', async () => {
    const { world } = shared;
    const chat = typing(world, ['plain', '--busy', 'steer']);
    chat.type(planInput(paused('cancelled')));
    await chat.says('one ');
    chat.type('/new', '/cancel');
    await chat.says('cancelled (cancelled in the chat)');
    expect(chat.stderr).toContain('concurrent_run: an answer is under way: /cancel it first');
    chat.type(planInput({ text: 'again' }));
    await chat.says('again');
    chat.endInput();
    expect(await chat.exited).toBe(0);
  });

  test('Redis may go and come back', async () => {
    const redis = await OwnRedis.start();
    const world = await makeWorld({ redisUrl: redis.url });
    const chat = typing(world, ['plain', '--busy', 'queue']);
    chat.type(planInput(paused('away')));
    await chat.says('one ');
    await redis.kill();
    await chat.says('Redis is away, and this goes on when it is back: ');
    chat.type(planInput({ text: 'second' }));
    await redis.start();
    await chat.says('Redis is back.');
    world.provider.gates.open('away');
    chat.endInput();
    expect(await chat.exited).toBe(0);
    expect(chat.stdout).toContain('second\n');
    expect(chat.stderr.match(/Redis is away/g)).toHaveLength(1);
  });
});

describe('at a terminal', () => {
  const open = (args: readonly string[]) =>
    new FakeTerminal(['chat', ...args], shared.world.fleet.prefix, shared.world.fleet.redisUrl);

  test('there is a prompt between answers, and Ctrl-D leaves', async () => {
    const terminal = open(['plain', '--thread', 'prompted']);
    await terminal.shows(/lists the commands\.\n> $/);
    terminal.type(planInput({ text: 'hello there' }));
    await terminal.shows(/\nhello there\ncompleted .*\n> $/);
    terminal.press(ctrlD);
    expect(await terminal.exited).toBe(0);
    expect(terminal.screen).toContain(' chat plain --thread prompted\n');
  });

  test('what comes while a person types is shown after the line', async () => {
    const { world } = shared;
    const terminal = open(['plain', '--thread', 'typing', '--busy', 'queue']);
    terminal.type(planInput({ text: 'one two three', hold: { gate: 'typing', afterPieces: 1 } }));
    await terminal.shows(/\none $/);
    terminal.press('half a ');
    await terminal.shows(/\none \n> half a $/);
    world.provider.gates.open('typing');
    const runId = (await world.mill.list({ thread: 'typing' })).runs[0]?.runId ?? '';
    await world.mill.result(runId);
    expect(terminal.screen).not.toMatch(/[> \n]two three\n/);
    terminal.press('\u0015');
    await terminal.shows(/> two three\n/);
    terminal.type('/quit');
    expect(await terminal.exited).toBe(0);
  });

  test('Ctrl-C stops an answer, a line later the next one, and twice it leaves', async () => {
    const terminal = open(['plain', '--thread', 'keys']);
    for (const gate of ['key-1', 'key-2']) {
      terminal.type(planInput({ text: `${gate} more`, hold: { gate, afterPieces: 1 } }));
      await terminal.shows(new RegExp(`\n${gate} $`));
      terminal.press(ctrlC);
      await terminal.shows(/\ncancelled \(cancelled in the chat\) .*\n> $/);
    }
    terminal.type('/help');
    await terminal.shows('/title TEXT');
    terminal.press(ctrlC);
    await terminal.shows('Ctrl-C again, or /quit, leaves.');
    terminal.press(ctrlC);
    expect(await terminal.exited).toBe(130);
  });
});

test('--last of a thread that there is not shows nothing', async () => {
  const world = await clientWorld();
  await aThread(world, 'one');
  const env = settings(world.prefix);
  expect((await millrace(['chat', 'support', '--thread', 'two', '--last', '5'], { env })).stdout).toBe('');
  const { code, stdout } = await millrace(['chat', 'support', '--thread', 'one', '--last', '1'], { env });
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^\d+ {2}assistant .*\nIt is shipped\.\n\n$/)]);
});
