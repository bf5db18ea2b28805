import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isRecord } from '../../../shared/base/json.ts';
import { RunError } from '../../../shared/base/errors.ts';
import type { Millrace } from '../../client/millrace.ts';

/** Where projects keep requests for a console that has something to try, one a line. */
const fileName = 'samples.jsonl';

/**
 * Starts the runs that the scripts of a project name, where nothing has run yet: they are marked with the metadata `sample`. Answers
 * how many there are now; 0: the project has none, or its runs are there already. Throws `validation` for a file or a request that is
 * wrong, and what `enqueueMany` throws.
 */
export async function startSamples(scriptPath: string, mill: Millrace): Promise<number> {
  const path = join(dirname(scriptPath), fileName);
  if (!existsSync(path)) return 0;
  if ((await mill.list({ limit: 1 })).runs.length > 0) return 0;
  const answers = await mill.enqueueMany(requestsIn(readFileSync(path, 'utf8')));
  const refused = answers.find((answer) => 'error' in answer);
  if (refused && 'error' in refused) throw new RunError('validation', `${fileName}: ${refused.error.message}`);
  return answers.length;
}

function requestsIn(text: string): readonly unknown[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line, index) => {
      try {
        return marked(JSON.parse(line), index + 1);
      } catch (error) {
        throw new RunError('validation', `${fileName}: line ${index + 1} is not JSON`, { cause: error });
      }
    });
}

/** What is no request stays as it is, and is refused. */
function marked(request: unknown, number: number): unknown {
  if (!isRecord(request)) return request;
  const own = isRecord(request['metadata']) ? request['metadata'] : {};
  return { ...request, metadata: { ...own, sample: String(number) } };
}
