import { expect, test } from 'vitest';
import { failedLine, groupedBy } from '../../../../src/producer/console/views/batches/failures.ts';
import { needsTemplate, previewOf } from '../../../../src/producer/console/views/batches/preview.ts';
import { actsFor, expectedMicrocents, sharesOf } from '../../../../src/producer/console/views/batches/words.ts';

const size = (text: string) => new TextEncoder().encode(text).length;
const preview = (name: string, text: string, bytes = size(text)) => previewOf(name, text, bytes);

test('the first lines of JSONL are shown by their fields', async () => {
  const text = Array.from({ length: 8 }, (_, at) => `{"id":"q-${at}","input":"ask ${at}"}\n`).join('\n');
  const found = await preview('a.jsonl', text);
  expect(found).toMatchObject({ format: 'JSONL', endpoint: '/v1/runs', columns: ['id', 'input'], problems: [] });
  expect(found.rows).toHaveLength(5);
  expect(found.lines).toEqual({ count: 8, exact: true });
  expect(needsTemplate(found)).toBe(false);
  expect((await preview('a.jsonl', '"a text"\n')).rows).toEqual([{ input: 'a text' }]);
  expect(needsTemplate(await preview('a.jsonl', '{"city":"Bonn"}\n'))).toBe(true);
});

test('lines of OpenAI are known by their route', async () => {
  const line = { custom_id: '1', method: 'POST', url: '/v1/chat/completions', body: { model: 'a', messages: [] } };
  expect((await preview('a.jsonl', JSON.stringify(line))).endpoint).toBe('/v1/chat/completions');
});

test('a line that is cut at the end of the piece is no problem, and the lines are estimated', async () => {
  const found = await preview('a.jsonl', '{"input":"a"}\n{"input":"b"}\n{"inp', 1_400);
  expect(found).toMatchObject({ problems: [], lines: { count: 100, exact: false } });
  expect((await preview('a.jsonl', '{"input":"a"}\nnot json\n')).problems).toEqual(['Line 2 is not JSON: not json']);
  expect((await preview('a.jsonl', '')).problems).toHaveLength(1);
});

test('a CSV is read with its quotes, and what hinders it is said', async () => {
  const found = await preview('A.CSV', '\uFEFFid, text\n1,"one, two\nlines"\n\n2,b\n');
  expect(found).toMatchObject({ format: 'CSV', columns: ['id', 'text'], problems: [], lines: { count: 2 } });
  expect(found.rows[0]).toEqual({ id: '1', text: 'one, two\nlines' });
  expect((await preview('a.csv', 'id;text\n1;a\n')).problems[0]).toContain('commas');
  expect((await preview('a.csv', 'a,a\n1,2\n')).problems[0]).toContain('twice');
  expect((await preview('a.csv', 'a,b\n"1,2\n')).problems[0]).toContain('no CSV');
});

test('failed lines are grouped by their code, of our form and of that of OpenAI', () => {
  const lines = [
    '{"line":1,"runId":"r1","status":"failed","error":{"code":"turn_limit","message":"a"}}',
    '{"line":2,"error":{"code":"validation","message":"b"}}',
    '{"custom_id":"3","response":{"status_code":400,"body":{"error":{"code":"turn_limit","message":"c"}}},"error":null}',
    'cut off',
    '',
  ];
  expect(groupedBy(lines.flatMap((line) => failedLine(line)))).toEqual([
    { code: 'turn_limit', count: 2, message: 'a', runIds: ['r1'], lines: [] },
    { code: 'validation', count: 1, message: 'b', runIds: [], lines: [2] },
  ]);
});

test('a batch offers what can be done with it as it is', () => {
  const counts = (failed: number) => ({ total: 9, completed: 1, failed });
  expect(actsFor({ status: 'quoted', request_counts: counts(0) })).toEqual(['resume', 'cancel']);
  expect(actsFor({ status: 'completed', request_counts: counts(0) })).toEqual([]);
  expect(actsFor({ status: 'completed', request_counts: counts(2) })).toEqual(['redrive']);
});

test('the parts of a batch are never more than all of it', () => {
  const open = { total: 5, waitingForMoney: 0, waitingForPeople: 0 };
  expect(sharesOf({ request_counts: { total: 10, completed: 6, failed: 2 }, open })).toEqual({
    completed: 60,
    failed: 20,
    open: 20,
  });
  expect(sharesOf({ request_counts: { total: 0, completed: 0, failed: 0 }, open }).open).toBe(0);
  const cost = { usd: 0, microcents: 300 };
  expect(expectedMicrocents({ cost, request_counts: { total: 10, completed: 3, failed: 0 } })).toBe(1_000);
  expect(expectedMicrocents({ cost, request_counts: { total: 10, completed: 2, failed: 0 } })).toBeUndefined();
});
