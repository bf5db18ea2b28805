import { realpath } from 'node:fs/promises';
import { z } from 'zod';
import { type Skill, skillManifest, type SkillManifest } from '../../../shared/contract/agent/skill.ts';
import { definePackageTool } from '../define.ts';
import { ToolError } from '../tool-error.ts';
import { ToolOutput, type Tool } from '../tool.ts';
import { maxPageAnswerBytes, openWithin, scannedPageOf, pageRange, relativePath } from '../file-within.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { checkedYaml } from '../../../shared/base/yaml-file.ts';

const maxFileBytes = 16 * 1024 * 1024;

const description =
  `Reads a skill before it is used, for instance {"name":"refunds"}: answers what it says. With a path, reads a file that
it refers to, for instance {"name":"refunds","path":"references/limits.md"}: answers content, offset (the byte at which it
begins), bytes, totalBytes and eof; go on at offset + bytes until eof is true.`.replaceAll('\n', ' ');

/**
 * The tool that reads the skills of an agent, and files of their folders: no links, and nothing outside of them. What it
 * answers is trusted as far as the skill is. `skills` has at least one.
 */
export function createReadSkillTool(skills: readonly Skill[]): Tool {
  const byName = new Map(skills.map((skill) => [skill.name, skill]));
  const tool = definePackageTool({
    name: 'read_skill',
    description,
    inputSchema: z.strictObject({
      name: z.enum([...byName.keys()]),
      path: relativePath.optional().describe('A file of its folder. Absent: what the skill says.'),
      ...pageRange,
    }),
    effect: 'read',
    // What was asked for is never cut: half of an instruction may be its opposite.
    maxResultTokens: 0,
    async execute({ name, path, offset, length }, { signal }) {
      const skill = byName.get(name);
      if (!skill) throw new ToolError('invalid_input', `there is no skill ${name}`);
      const text = path === undefined ? await textOf(skill) : await fileOf(skill, path, { offset, length }, signal);
      const trust = skill.trust === 'trusted' ? ('trusted-skill' as const) : ('untrusted-skill' as const);
      return new ToolOutput(text, { origin: { toolName: 'read_skill', trust, sensitivity: 'public' } });
    },
  });
  return Object.freeze({ ...tool, maxResultBytes: maxPageAnswerBytes });
}

async function textOf({ name, folder, trust }: Skill): Promise<string> {
  try {
    const { manifest, body } = await readSkillFile(folder);
    // Nothing of an untrusted skill is in the system text, so that the model has not read this yet.
    return trust === 'trusted' ? body : `${manifest.description}\n\n${body}`;
  } catch (cause) {
    throw new ToolError('execution_failed', `skill ${name} cannot be read any more`, { cause });
  }
}

async function fileOf(
  { name, folder }: Skill,
  path: string,
  { offset, length }: { readonly offset: number; readonly length: number },
  signal: AbortSignal,
) {
  const root = await realpath(folder).catch((cause: unknown) => {
    throw new ToolError('execution_failed', `skill ${name} cannot be read any more`, { cause });
  });
  await using file = await openWithin(root, path, maxFileBytes);
  signal.throwIfAborted();
  return await scannedPageOf(file, offset, length);
}

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
