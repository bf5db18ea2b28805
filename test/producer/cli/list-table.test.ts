import { expect, test } from 'vitest';
import { listTable, nameColumn, numberColumn, textColumn } from '../../../src/producer/cli/show/list-table.ts';

const columns = [nameColumn('RUN'), textColumn('TOOLS'), numberColumn('COST'), textColumn('NOTE')];
const long = 'the provider did not answer within the time that it had for this call';
const rows = [
  ['01K9Z5N3T8R6V2X4B7C1D0E9FG', 'look', '$0.5', long],
  ['01K9Z5N3T8R6V2X4B7C1D0E9FH', 'look, charge, put', '$12.25', ''],
];

test('numbers end below each other, and nothing is cut where there is no terminal', () => {
  const lines = listTable(columns, rows, { isTTY: false, columns: 40 }).split('\n');
  expect(lines).toEqual([
    'RUN                         TOOLS                COST  NOTE',
    `01K9Z5N3T8R6V2X4B7C1D0E9FG  look                 $0.5  ${long}`,
    '01K9Z5N3T8R6V2X4B7C1D0E9FH  look, charge, put  $12.25',
    '',
  ]);
});

test('on a terminal no line is wider than it, and ids and numbers stay whole', () => {
  const text = listTable(columns, rows, { isTTY: true, columns: 80 });
  expect(Math.max(...text.split('\n').map((line) => line.length))).toBe(80);
  expect(text).toMatch(/^01K9Z5N3T8R6V2X4B7C1D0E9FG {2}look +\$0\.5 {2}the provider .*…$/m);
  expect(text).toContain('01K9Z5N3T8R6V2X4B7C1D0E9FH  look, charge, put  $12.25\n');
  const tiny = listTable(columns, rows, { isTTY: true, columns: 20 });
  expect(tiny).toContain('01K9Z5N3T8R6V2X4B7C1D0E9FH  look, charg…  $12.25\n');
});
