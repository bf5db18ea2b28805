import { readFileSync } from 'node:fs';
import { RunError } from '../../shared/base/errors.ts';
import { isRecord, jsonOr } from '../../shared/base/json.ts';
import { problemsOf } from '../../shared/base/problems.ts';
import {
  runExport,
  runExportKind,
  runExportVersion,
  type RunExport,
} from '../../shared/contract/archive/run-export.ts';

/** The run in a file that `millrace export` wrote. Throws `validation` that names the file and every problem. */
export function readExport(file: string): RunExport {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new RunError('validation', `the export ${file} cannot be read`, { cause });
  }
  const found = jsonOr(text);
  const { kind, v } = isRecord(found) ? found : {};
  if (kind !== runExportKind)
    throw new RunError('validation', `${file} is no export of a run: \`millrace export RUN -o ${file}\` writes one`);
  if (v !== runExportVersion)
    throw new RunError(
      'validation',
      `the export ${file} has version ${String(v)}; this Millrace reads ${runExportVersion}`,
    );
  const read = runExport.safeParse(found);
  if (read.success) return read.data;
  const problems = problemsOf(read.error, 'the file');
  throw new RunError('validation', `the export ${file} cannot be used:\n  ${problems.join('\n  ')}`, {
    details: problems,
  });
}
