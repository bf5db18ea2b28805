import { expect, test } from 'vitest';
import {
  failedLine,
  failedRows,
  groupedBy,
  mostCauses,
} from '../../../../src/producer/console/views/batches/failures.ts';

test('lines of results name their line, their run and why they failed, in our form and in that of OpenAI', () => {
  const own = { line: 3, id: 'c', custom_id: 'c', runId: 'R', status: 'failed', error: { code: 'x', message: 'why' } };
  expect(failedLine(JSON.stringify(own))).toEqual([{ code: 'x', message: 'why', runId: 'R', line: 3, name: 'c' }]);
  const bad = { line: 4, status: 'failed', error: { code: 'validation', message: 'the line is not JSON' } };
  expect(failedLine(JSON.stringify(bad))).toMatchObject([{ code: 'validation', runId: undefined, line: 4 }]);
  const refused = { id: 'batch_req_5', custom_id: 'e', response: null, error: { code: 'y', message: 'no' } };
  expect(failedLine(JSON.stringify(refused))).toEqual([
    { code: 'y', message: 'no', runId: undefined, line: 5, name: 'e' },
  ]);
  const response = { status_code: 500, request_id: 'S', body: { error: { code: 'z', message: 'oh' } } };
  const answered = { id: 'batch_req_6', custom_id: 'f', response, error: null };
  expect(failedLine(JSON.stringify(answered))).toMatchObject([{ code: 'z', message: 'oh', runId: 'S', line: 6 }]);
  expect(['', 'no JSON', '[1'].flatMap(failedLine)).toEqual([]);
});

test('rows of results say the same, whatever their columns are called', async () => {
  const header = 'id,error,text,status,run_status,run_text,run_error,cost_usd,run_id\n';
  const rows =
    'a,mine,"two\nlines",open,failed,,"tool_failed: it broke: twice",0.1,R1\n,x,y,z,failed,,validation: no,0,\n';
  expect(await failedRows(header + rows)).toEqual([
    { code: 'tool_failed', message: 'it broke: twice', runId: 'R1', line: undefined, name: 'a' },
    { code: 'validation', message: 'no', runId: undefined, line: undefined, name: ', x, y, z' },
  ]);
  expect(await failedRows('')).toEqual([]);
});

const failed = (code: string, message: string, runId?: string) => ({ code, message, runId, line: 1, name: undefined });

test('errors are grouped by their code, the most frequent first', () => {
  const groups = groupedBy([failed('a', 'x'), failed('b', 'y'), failed('b', 'y', 'R')]);
  const further = { causes: 0, lines: 0 };
  expect(groups).toEqual([
    { code: 'b', count: 2, runId: 'R', causes: [{ count: 2, message: 'y', runId: 'R' }], further },
    { code: 'a', count: 1, runId: undefined, causes: [{ count: 1, message: 'x', runId: undefined }], further },
  ]);
});

test('errors with one code are grouped by their messages, whatever ids, times and numbers stand in them', () => {
  const same = [
    ['the call call_8fK2mZ0Q1x took 1,200 ms', 'the call call_9aB7cD3e2F took 30 ms'],
    ['line 3: no column 7', 'line 12: no column 10'],
    ['run 01K9Z5N3T8R6V2X4B7C1D0E9FG is gone', 'run 01K9Z5N3T8R6V2X4B7C1D0E9FH is gone'],
    ['order 0b0e8a3c-6c1f-4a5e-9d1a-0123456789ab', 'order 1c0e8a3c-6c1f-4a5e-9d1a-0123456789ac'],
    ['at 2026-11-28T10:00:00.000Z it was 2.5', 'at 2026-11-28T10:00:01.200Z it was 3'],
  ];
  for (const messages of same)
    expect(groupedBy(messages.map((message) => failed('x', message)))[0]?.causes).toMatchObject([
      { count: 2, message: messages[0] },
    ]);
  const other = ['gpt-4o answered 500', 'gpt-5 answered 500', 'no tool look', 'no tool see'];
  const [group] = groupedBy([...other, 'no tool see'].map((message) => failed('x', message)));
  expect(group?.causes.map(({ count, message }) => `${count} ${message}`)).toEqual([
    '2 no tool see',
    '1 gpt-4o answered 500',
    '1 gpt-5 answered 500',
    '1 no tool look',
  ]);
});

test('of many causes the most frequent are listed, and the others are counted', () => {
  const causes = Array.from({ length: mostCauses + 3 }, (_, at) => `cause ${'a'.repeat(at + 1)}`);
  const [group] = groupedBy([...causes, ...causes.slice(0, mostCauses)].map((message) => failed('x', message)));
  expect(group?.causes.map(({ message }) => message)).toEqual(causes.slice(0, mostCauses));
  expect(group?.further).toEqual({ causes: 3, lines: 3 });
});
