import { realpath } from 'node:fs/promises';
import { skillManifest, type SkillManifest } from '../../shared/contract/agent/skill.ts';
import { RunError } from '../../shared/base/errors.ts';
import { checkedYaml } from '../../shared/base/yaml-file.ts';
import { openWithin } from './file-within.ts';

export const skillFileName = 'SKILL.md';

/** What fits beside a conversation: it is read as a whole. */
const maxSkillBytes = 64 * 1024;
const fence = '---';

/** A `SKILL.md`: its head, and the instructions for the model. */
export interface SkillFile {
  readonly manifest: SkillManifest;
  readonly body: string;
}

/**
 * Reads the `SKILL.md` of a folder. Throws `agent_manifest_invalid` whose details list every problem of its form, and a
 * `ToolError` for a file that is missing, too large, a link or no plain file.
 */
export async function readSkillFile(folder: string): Promise<SkillFile> {
  await using file = await openWithin(await realpath(folder), skillFileName, maxSkillBytes);
  const bytes = await file.readFile();
  try {
    return skillFileOf(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw error instanceof RunError ? error : invalid(['is not UTF-8 text'], error);
  }
}

function skillFileOf(text: string): SkillFile {
  const lines = text.split(/\r?\n/);
  // A line like this always ends a YAML document, also inside a text of several lines.
  const end = lines.findIndex((line, index) => index > 0 && line.trimEnd() === fence);
  if (lines[0]?.trimEnd() !== fence || end === -1)
    throw invalid([`does not begin with its fields between two lines ${fence}`]);
  const head = checkedYaml(lines.slice(1, end).join('\n'), skillManifest);
  if (!head.ok) throw invalid(head.problems);
  const body = lines
    .slice(end + 1)
    .join('\n')
    .trim();
  if (body === '') throw invalid(['says nothing below its fields']);
  return { manifest: head.value, body };
}

function invalid(problems: readonly string[], cause?: unknown): RunError {
  return new RunError('agent_manifest_invalid', problems.join('\n'), { details: [...problems], cause });
}
