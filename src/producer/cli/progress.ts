import { dateTime, dim } from './show/paint.ts';
import { oneLine, printable } from '../../shared/base/words.ts';
import { printJson, examples, exitCodes, type Cli } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import type { ProgressEntry } from '../client/artifacts.ts';
import { asJson, command, text, value, valueOr } from './options/command.ts';
import { openClient } from './options/open-client.ts';
import { wholeNumber } from './options/arguments.ts';

const maxPage = 100;

export const addProgress = command('progress <run>', {
  description: 'Show the notes that agents left in a run, also after its end.',
  options: [
    text('--role <role>', 'only notes of this role'),
    value('--after <n>', 'only notes with a higher number', wholeNumber(0, 1_000_000)),
    valueOr('--limit <n>', `at most so many, up to ${maxPage}`, wholeNumber(1, maxPage), maxPage),
    asJson,
  ],
  help: examples(
    'millrace progress 01KAPN3YV8Q2T5W7X9Z0A1B2C3',
    'millrace progress 01KAPN3YV8Q2T5W7X9Z0A1B2C3 --role planner --json',
  ),
  work: async (cli, run, { role, after, limit, json }) => {
    await using mill = openClient(cli);
    const notes = await mill.progress(
      await mill.findRunId(run),
      defined({ maxArtifacts: limit, role, sinceSeq: after }),
    );
    if (json) printJson(cli, notes);
    else for (const note of notes) cli.stdout.write(`${shown(cli, note)}\n`);
    if (notes.length === 0) cli.stderr.write('There are no such notes.\n');
    return exitCodes.ok;
  },
});

function shown(cli: Cli, { role, seq, at, tags, text }: ProgressEntry): string {
  const heading = [`${role} ${seq}`, dateTime(at), oneLine(tags.join(', '), 100)];
  const body = text === undefined ? '(its text is not readable here: see ARTIFACT_STORE)' : printable(text);
  return `${dim(cli.stdout, heading.filter((part) => part !== '').join('  '))}\n${body}\n`;
}
