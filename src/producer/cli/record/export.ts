import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { RunError } from '../../../shared/base/errors.ts';
import { countOf } from '../../../shared/base/words.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { examples, exitCodes } from '../cli.ts';
import { command, text } from '../options/command.ts';
import { openClient } from '../options/open-client.ts';

export const addExport = command('export <run>', {
  description: 'Write a run with all that is known of it as one JSON document.',
  options: [text('-o, --output <file>', 'where it goes (default: standard output)')],
  help: examples(
    'millrace export 01K9Z5N3T8R6V2X4B7C1D0E9FG -o run.json',
    "millrace export 01K9Z5N3T8R6V2X4B7C1D0E9FG | jq '.steps.steps[].calls'",
  ),
  work: async (cli, runId, { output }) => {
    await using mill = openClient(cli);
    const document = await mill.export(await mill.findRunId(runId));
    const written = `${jsonText(document, null, 2)}\n`;
    if (output === undefined) {
      cli.stdout.write(written);
      return exitCodes.ok;
    }
    await writeFile(resolve(cli.cwd, output), written).catch((cause: unknown) => {
      throw new RunError('validation', `${output} cannot be written`, { cause });
    });
    const children =
      document.children.length === 0 ? '' : `, ${countOf(document.children.length, 'run')} that worked for it`;
    cli.stderr.write(
      `${output}: run ${document.run.runId}, ${countOf(document.steps.steps.length, 'step')}${children}\n`,
    );
    return exitCodes.ok;
  },
});
