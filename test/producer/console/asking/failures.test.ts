import { expect, test } from 'vitest';
import { failedLine, failedRows, groupedBy } from '../../../../src/producer/console/views/batches/failures.ts';

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

test('errors are grouped by their code, the most frequent first', () => {
  const of = (code: string, runId?: string) => ({ code, message: code, runId, line: 1, name: undefined });
  expect(groupedBy([of('a'), of('b'), of('b', 'R')])).toEqual([
    { code: 'b', count: 2, message: 'b', runId: 'R' },
    { code: 'a', count: 1, message: 'a', runId: undefined },
  ]);
});
