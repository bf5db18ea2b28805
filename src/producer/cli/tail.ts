import { RunError } from '../../shared/base/errors.ts';
import { openClient } from './options/open-client.ts';
import { command, flag, value } from './options/command.ts';
import { examples, exitCodes, type Cli, shownJson } from './cli.ts';
import { dialectHelp, dialectOption, wholeNumber } from './options/arguments.ts';
import { lineOf } from './show/run-printer.ts';
import { watchRun } from './show/watch-run.ts';
import { dim } from './show/paint.ts';
import { flat } from '../../shared/base/words.ts';

export const addTail = command('tail [run]', {
  description: 'Follow one run from its beginning, or everything that happens from now on.',
  options: [
    value('--after <n>', 'begin after this event number (with a run)', wholeNumber(0)),
    dialectOption(),
    flag('--json', 'print one event a line'),
  ],
  help: examples('millrace tail', 'millrace tail 01K9Z5N3T8R6V2X4B7C1D0E9FG --after 12 --json') + dialectHelp,
  work: async (cli, runId, { after, dialect, ...options }) => {
    if (runId === undefined && after !== undefined)
      throw new RunError('validation', '--after needs a run: without one only what happens from now on is shown');
    if (runId === undefined && dialect !== undefined)
      throw new RunError('validation', '--dialect needs a run: it projects the events of one run, from its beginning');
    await using mill = openClient(cli);
    const json = options.json === true;
    if (runId !== undefined) return await watchRun(cli, mill, await mill.findRunId(runId), { json, after, dialect });
    await tailAll(cli, mill, json);
    return exitCodes.interrupted;
  },
});

/** Ends only by an interrupt. */
async function tailAll(cli: Cli, mill: ReturnType<typeof openClient>, json: boolean): Promise<void> {
  // The live feed outlasts an outage; the user of a command wants to know at once.
  await mill.agents();
  cli.stderr.write(`${dim(cli.stderr, 'Following all runs; Ctrl-C ends it.')}\n`);
  for await (const event of mill.firehose({ signal: cli.interrupted })) {
    if (json) {
      cli.stdout.write(shownJson(event));
      continue;
    }
    const line = lineOf(event);
    if (line === undefined) continue;
    const head = dim(cli.stdout, `${event.timestamp.slice(11, 19)} ${event.runId}`);
    cli.stdout.write(`${head} ${flat(event.agentId ?? '')}  ${line}\n`);
  }
}
