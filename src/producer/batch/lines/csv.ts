import { parse, CsvError } from 'csv-parse/sync';
import { stringify } from 'csv-stringify/sync';
import { RunError } from '../../../shared/base/errors.ts';
import { clip } from '../../../shared/base/text.ts';
import { maxLineBytes } from './raw-lines.ts';

/** More columns come from a file that is no table. */
const maxColumns = 1_000;
const shownChars = 80;

/** The fields of one record, or what is wrong with it. */
export type Fields = { readonly fields: readonly string[] } | { readonly problem: string };

/** Reads the text of one record as RFC 4180 has it. */
export function fieldsOf(text: string): Fields {
  try {
    const [fields = [], more] = parse(text, { record_delimiter: '\n', max_record_size: maxLineBytes });
    return more === undefined ? { fields } : { problem: 'is more than one row: a quote is not in its place' };
  } catch (error) {
    if (error instanceof CsvError) return { problem: problemOf(error.code) };
    throw error;
  }
}

function problemOf(code: CsvError['code']): string {
  switch (code) {
    case 'CSV_QUOTE_NOT_CLOSED':
      return 'opens a quote that nothing closes: all that follows in the file is part of it';
    case 'CSV_INVALID_CLOSING_QUOTE':
    case 'INVALID_OPENING_QUOTE':
      return 'has a quote inside a field: put quotes around the field, and write "" for one within';
    default:
      return `is no row of a CSV file (${code})`;
  }
}

/** The columns that a header names. Throws `validation` for one that does not give each column a name of its own. */
export function columnsOf(text: string): readonly string[] {
  const read = fieldsOf(text);
  if ('problem' in read) throw new RunError('validation', `the header ${read.problem}`);
  const columns = read.fields.map((name) => name.trim());
  if (columns.length > maxColumns) throw new RunError('validation', `the header has over ${maxColumns} columns`);
  const empty = columns.indexOf('');
  if (empty >= 0) throw new RunError('validation', `column ${empty + 1} of the header has no name`);
  const [only = ''] = columns;
  if (columns.length === 1 && /[;\t]/.test(only))
    throw new RunError('validation', `the header is one column, ${clip(only, shownChars)}: put commas between columns`);
  const twice = columns.find((name, index) => columns.indexOf(name) < index);
  if (twice !== undefined)
    throw new RunError('validation', `the header has the column ${clip(twice, shownChars)} twice: rename one of them`);
  return columns;
}

/** One row, with its end. Values stay as they are, also those that a spreadsheet would take for a formula. */
export function rowText(fields: readonly string[]): string {
  // Many readers end a line at a carriage return, too.
  return stringify([fields], { record_delimiter: '\n', quoted_match: '\r' });
}
