import { PassThrough } from 'node:stream';
import { join } from 'node:path';
import type { Command, Option } from 'commander';
import { z } from 'zod';
import type { Cli } from '../../src/producer/cli/cli.ts';
import { programOf } from '../../src/producer/cli/program.ts';
import { argumentsOf } from '../../src/producer/cli/options/first-screen.ts';
import { printedBy, type Printed } from './cli-shapes.ts';
import { code, fieldTable, table, type JsonSchema } from './json-schema.ts';

const intro = `# Command line

Every command of \`millrace\`, from its own definitions. \`millrace COMMAND --help\` says the same, with examples.

Data goes to standard output, every text for a person to standard error. \`--no-color\`, and the variable \`NO_COLOR\`, turn
colours off; without a terminal there are none. Times are UTC. With \`--json\` a command prints one JSON document, or, where
that is said, one document a line; more fields may come with later versions.

| exit code | meaning                                                                  |
| --------- | ------------------------------------------------------------------------ |
| 0         | ok                                                                       |
| 1         | a run failed, or something needs attention                               |
| 2         | the command, a name, an argument or a setting is wrong: nothing was done |
| 3         | Redis cannot be reached                                                  |
| 130       | interrupted                                                              |`;

/** Every command with its options and what it prints. */
export function cliPage(): string {
  const stream = new PassThrough() as unknown as Cli['stdout'];
  const root = join(import.meta.dirname, '../..');
  const program = programOf({ root, stdout: stream, stderr: stream }, () => async () => {});
  const sections = program.commands.toSorted(byName).flatMap((command) => section(command, command.name()));
  return [intro, ...sections].join('\n\n');
}

function byName(a: Command, b: Command): number {
  return a.name() < b.name() ? -1 : 1;
}

function section(command: Command, path: string): string[] {
  const parts = command.commands.flatMap((part) => section(part, `${path} ${part.name()}`));
  const options = command.options.map((option) => [code(option.flags), meaningOf(option)]);
  const printed = printedBy[path];
  return [
    `## ${code([path, ...argumentsOf(command)].join(' '))}`,
    command.description(),
    options.length > 0 ? table(['option', 'meaning'], options) : '',
    printed ? printedText(printed) : '',
    ...parts,
  ].filter((part) => part !== '');
}

function meaningOf({ description, argChoices, defaultValue, mandatory }: Option): string {
  const choices = argChoices ? `one of ${argChoices.map((choice) => code(choice)).join(', ')}` : '';
  const fallback = defaultValue === undefined ? '' : `default: ${String(defaultValue)}`;
  const extra = [mandatory ? 'required' : '', choices, fallback].filter((part) => part !== '').join('; ');
  return extra === '' ? description : `${description} (${extra})`;
}

function printedText({ as, shape, is, note }: Printed): string {
  const what = as === 'lines' ? 'each line is' : 'it prints';
  const text = [`With ${code('--json')} ${what} ${is ?? 'an object'}.`, note].filter((part) => part).join(' ');
  if (is !== undefined) return text;
  return `${text}\n\n${fieldTable(z.toJSONSchema(shape, { io: 'output', unrepresentable: 'any' }) as JsonSchema)}`;
}
