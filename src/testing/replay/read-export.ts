import { readFileSync, statSync } from 'node:fs';
import { RunError } from '../../shared/base/errors.ts';
import { depthOver, isRecord, jsonOr, maxLevels } from '../../shared/base/json.ts';
import { problemsOf } from '../../shared/base/problems.ts';
import { cutText } from '../../shared/base/redact.ts';
import {
  maxExportBytes,
  runExport,
  runExportKind,
  runExportVersion,
  type RunExport,
} from '../../shared/contract/archive/run-export.ts';

/** Arguments have `maxLevels`; what is around them needs fewer. */
const maxDepth = 2 * maxLevels;
/** What the error of a file with thousands of problems names. */
const maxProblems = 50;
const maxProblemBytes = 160;

/** The run in a file that `millrace export` wrote. Throws `validation` that names the file and what is wrong with it. */
export function readExport(file: string): RunExport {
  const text = textOf(file);
  if (depthOver(text, maxDepth)) throw new RunError('validation', `the export ${file} is nested too deep`);
  const found = jsonOr(text);
  if (found === undefined) throw new RunError('validation', `the export ${file} is no JSON: it may be cut off`);
  const { kind, v } = isRecord(found) ? found : {};
  if (kind !== runExportKind)
    throw new RunError('validation', `${file} is no export of a run: \`millrace export RUN -o ${file}\` writes one`);
  if (v !== runExportVersion) {
    const version = typeof v === 'number' ? `version ${v}` : 'another version';
    throw new RunError('validation', `the export ${file} has ${version}; this Millrace reads ${runExportVersion}`);
  }
  const read = runExport.safeParse(found);
  if (read.success) return read.data;
  const { issues } = read.error;
  const problems = problemsOf({ issues: issues.slice(0, maxProblems) }, 'the file').map((one) =>
    cutText(one, maxProblemBytes),
  );
  throw new RunError('validation', `the export ${file} cannot be used:\n  ${problems.join('\n  ')}`, {
    details: problems,
  });
}

function textOf(file: string): string {
  let text: string;
  try {
    if (statSync(file).size > maxExportBytes) throw tooLarge(file);
    text = decoded(readFileSync(file));
  } catch (cause) {
    if (cause instanceof RunError) throw cause;
    throw new RunError('validation', `the export ${file} cannot be read`, { cause });
  }
  // A pipe has no size.
  if (text.length > maxExportBytes) throw tooLarge(file);
  return text;
}

/** By its byte order mark: some shells write one when a command's output goes to a file. The mark is left out. */
function decoded(bytes: Buffer): string {
  const mark = bytes.toString('hex', 0, 2);
  const encoding = mark === 'fffe' ? 'utf-16le' : mark === 'feff' ? 'utf-16be' : 'utf-8';
  return new TextDecoder(encoding).decode(bytes);
}

function tooLarge(file: string): RunError {
  return new RunError('validation', `the export ${file} is larger than ${maxExportBytes / 1_048_576} MiB`);
}
