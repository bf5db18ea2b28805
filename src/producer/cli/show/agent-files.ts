import { readdirSync } from 'node:fs';
import { basename, extname, relative, resolve } from 'node:path';
import { z } from 'zod';
import type { RunError } from '../../../shared/base/errors.ts';
import { findDevState } from '../../client/dev-state.ts';
import type { Cli } from '../cli.ts';
import { callOf } from './call-of.ts';

const unknownAgent = z.array(z.object({ known: z.array(z.string()) })).min(1);
const maxFiles = 50;

/**
 * What to look at when there is no such agent: the files of the folder of agents, and which of them no loaded agent has its
 * name from. Undefined for another error, and where there is no such folder.
 */
export function agentFilesFor({ details }: RunError, cli: Cli): string | undefined {
  const { data: [unknown] = [] } = unknownAgent.safeParse(details);
  if (!unknown) return undefined;
  const folder = findDevState(cli.cwd)?.agents ?? resolve(cli.cwd, cli.env['MILLRACE_AGENTS'] || './agents');
  const files = agentFiles(folder);
  if (!files) return undefined;
  const shown = relative(cli.cwd, folder) || '.';
  const names = files.map((file) =>
    unknown.known.includes(basename(file, extname(file))) ? file : `${file} (no loaded agent has this name)`,
  );
  const check = `\`${callOf(cli)} agents check ${shown}\` reports their problems.`;
  return `Files in ${shown}: ${names.slice(0, maxFiles).join(', ') || 'none'}. ${check}`;
}

function agentFiles(folder: string): readonly string[] | undefined {
  try {
    return readdirSync(folder)
      .filter((file) => /(?<!\.d)\.(ts|mts|js|mjs|ya?ml)$/.test(file))
      .sort();
  } catch {
    return undefined;
  }
}
