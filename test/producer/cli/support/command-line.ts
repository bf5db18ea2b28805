import { PassThrough } from 'node:stream';
import type { Command, Option } from 'commander';
import { programOf } from '../../../../src/producer/cli/program.ts';
import type { Cli } from '../../../../src/producer/cli/cli.ts';
import { root } from './cli-process.ts';

/** A command by the words that call it, with its help. */
export interface NamedCommand {
  readonly path: string;
  readonly command: Command;
  readonly options: readonly Option[];
}

/** Every command and part of a command. */
export function allCommands(): readonly NamedCommand[] {
  const stream = new PassThrough() as unknown as Cli['stdout'];
  const program = programOf({ root, stdout: stream, stderr: stream }, () => async () => {});
  return program.commands.flatMap((command) => withParts(command, command.name()));
}

function withParts(command: Command, path: string): readonly NamedCommand[] {
  const parts = command.commands.flatMap((part) => withParts(part, `${path} ${part.name()}`));
  return [{ path, command, options: command.options }, ...parts];
}

export function helpOf({ command }: NamedCommand): string {
  let text = '';
  command.configureOutput({ writeOut: (part) => void (text += part) });
  command.outputHelp();
  return text;
}
