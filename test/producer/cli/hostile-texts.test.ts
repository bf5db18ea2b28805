import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { WriteStream } from 'node:tty';
import { expect, onTestFinished, test } from 'vitest';
import { shownJson } from '../../../src/producer/cli/cli.ts';
import { listTable, nameColumn, textColumn } from '../../../src/producer/cli/show/list-table.ts';
import { dim, known, table } from '../../../src/producer/cli/show/paint.ts';
import { waitsFor, whatFollows } from '../../../src/producer/cli/show/pending.ts';
import { lineOf } from '../../../src/producer/cli/show/run-printer.ts';
import { stepLines } from '../../../src/producer/cli/show/step-lines.ts';
import type { RunSteps } from '../../../src/shared/contract/archive/run-steps.ts';
import type { PendingView } from '../../../src/shared/contract/event.ts';
import { flat, printable } from '../../../src/shared/base/words.ts';
import { erasureKeyOf, noCounts } from '../../../src/shared/contract/erasure/receipt.ts';
import { millrace } from './support/cli-process.ts';

/** Clears a screen, makes a link, turns the order of what follows around, and begins a line. */
const evil = '\u001b[2J\u001b]8;;http://x\u0007\u009b31m\u202eabc\u2066\r\nFAKE\u2028FAKE';
// eslint-disable-next-line no-control-regex
const obeyed = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029]|^\s*FAKE/mu;
const plain = { isTTY: false } as WriteStream;

const call = {
  toolCallId: evil,
  toolName: `look${evil}`,
  args: { [evil]: evil },
  modelArgs: { a: evil },
  error: { kind: evil, message: evil },
  decision: { granted: true, by: [evil], reason: evil },
  policy: [{ action: 'deny', ruleId: evil, reason: evil }],
  flow: [{ decision: 'blocked', findings: [{ rule: evil }] }],
  childRunId: evil,
  inner: [],
};
const run = {
  runId: '01K9Z5N3T8R6V2X4B7C1D0E9FG',
  status: 'failed',
  queuedAt: '2026-11-22T00:00:00Z',
  source: 'live',
  initial: [{ role: 'user', content: evil }],
  segments: [{ worker: evil, from: '2026-11-22T00:00:00Z', end: 'lost' }],
  waits: [{ reason: 'approval', from: '2026-11-22T00:00:00Z', waitsFor: [{ id: evil }], by: [evil], summary: evil }],
  steps: [
    {
      stepNumber: 1,
      agent: evil,
      provider: evil,
      model: evil,
      costMicrocents: 1,
      handoff: { from: evil },
      request: { added: [{ role: 'user', content: evil, kind: evil }] },
      attempts: [{ outcome: 'failed', model: evil, error: { message: evil } }],
      fallbacks: [{ from: evil, to: evil, reason: evil }],
      answer: { text: evil, media: [{ handle: evil, mediaType: evil }] },
      calls: [call, { ...call, error: undefined, result: { content: evil } }],
    },
  ],
  orchestration: [{ key: evil, value: evil }],
  children: [{ runId: evil, agent: evil, status: evil }],
  error: { code: 'internal', message: evil },
} as unknown as RunSteps;

test('whatever names and texts a run has, its steps are lines that no terminal obeys', () => {
  const shown = stepLines(run, plain);
  expect(shown).toContain('look');
  expect(shown).not.toMatch(obeyed);
});

test('JSON has escapes in place of what a terminal obeys, and is the same value', () => {
  const shown = shownJson({ [evil]: [evil] });
  expect(shown.trimEnd()).not.toMatch(obeyed);
  expect(JSON.parse(shown)).toEqual({ [evil]: [evil] });
});

test('events, waits and decisions are lines that no terminal obeys', () => {
  const about = { toolCallId: evil, toolName: evil, args: { a: evil }, by: evil, reason: evil };
  const pending = [
    { kind: 'approval', id: evil, ...about },
    { kind: 'child', id: evil },
    { kind: 'thread', id: evil, toolName: evil },
  ] as unknown as PendingView[];
  const events = ['tool.execute.start', 'tool.approval.requested', 'tool.approval.denied', 'agent.model.fellback'];
  const lines = events.map((type) => lineOf({ type, ...about, previousModel: evil, nextModel: evil } as never));
  const before = { runId: run.runId, status: 'suspended', pending } as never;
  const all = [...lines, waitsFor({ pending }), ...whatFollows(before, {}, before)];
  for (const line of all) expect(line).not.toMatch(obeyed);
});

test('rows, facts and painted pieces stay on their lines', () => {
  const columns = [nameColumn('NAME'), textColumn('TEXT')];
  const all = [listTable(columns, [[evil, evil]], {}), table(known([[evil, evil]])), dim(plain, evil)];
  for (const shown of all) expect(shown).not.toMatch(obeyed);
});

test('a text keeps its lines and what is written from right to left', () => {
  expect(printable('one\n\ttwo שלום\u200f')).toBe('one\n\ttwo שלום\u200f');
  expect(flat('  a\r\nb  c')).toBe('  a b  c');
});

test('a receipt whose id looks like a verdict is shown with the verdict about it alone', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-receipt-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'receipt.json');
  const key = erasureKeyOf(Buffer.alloc(32, 1).toString('base64'));
  const [receiptId, none] = ['\u001b[2K\rvalid abc\nvalid def', { media: 0, files: 0 }];
  const about = { kind: 'millrace.erasure-receipt', v: 1, receiptId, tenant: 'default', at: '', of: 'runs' } as const;
  const signed = key.sign({ ...about, runs: [], threads: [], erased: { ...noCounts }, kept: none });
  writeFileSync(file, JSON.stringify({ ...signed, tenant: 'other' }));
  const { code, stdout } = await millrace(['receipt', 'verify', file, '--key', key.view.publicKey]);
  expect([code, stdout]).toEqual([1, 'NOT VALID [2K valid abc valid def\n']);
});

test('a receipt whose text has a key twice is not valid, whichever value is the signed one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-receipt-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'receipts.jsonl');
  const key = erasureKeyOf(Buffer.alloc(32, 1).toString('base64'));
  const about = { kind: 'millrace.erasure-receipt', v: 1, tenant: 'default', at: '', of: 'runs' } as const;
  const textOf = (receiptId: string) => {
    const rest = { runs: [], threads: [], erased: { ...noCounts, records: 12 }, kept: { media: 0, files: 0 } };
    return JSON.stringify(key.sign({ ...about, receiptId, ...rest }));
  };
  const twice = textOf('r2').replace('"records":12', '"records":0,"records":12');
  const verified = async (content: string, ...more: string[]) => {
    writeFileSync(file, content);
    return await millrace(['receipt', 'verify', file, '--key', key.view.publicKey, ...more]);
  };
  const why = (id: string) =>
    `${id}: an object in its text has a key twice, so what a reader takes from it is not certain\n`;
  const lines = await verified(`${textOf('r1')}\n${twice}\n`);
  expect([lines.code, lines.stdout, lines.stderr]).toEqual([1, 'valid r1\nNOT VALID r2\n', why('r2')]);
  const within = await verified(`{"receipt":${textOf('r3')},"kept":[],"receipt":${textOf('r3')}}`, '--json');
  expect([within.code, JSON.parse(within.stdout)]).toEqual([1, [{ receiptId: 'r3', valid: false }]]);
  expect(within.stderr).toBe(why('r3'));
});
