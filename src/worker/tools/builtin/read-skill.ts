import { realpath } from 'node:fs/promises';
import { z } from 'zod';
import type { Skill } from '../../../shared/contract/agent/skill.ts';
import { defineTool } from '../define.ts';
import { readSkillFile } from '../skill-file.ts';
import { ToolError } from '../tool-error.ts';
import { ToolOutput, type Tool } from '../tool.ts';
import { maxPageAnswerBytes, openWithin, pageOf, pageRange, relativePath } from '../file-within.ts';

const maxFileBytes = 16 * 1024 * 1024;

const description =
  `Reads a skill before it is used, for instance {"name":"refunds"}: answers what it says. With a path, reads a file that
it refers to, for instance {"name":"refunds","path":"references/limits.md"}: answers content, offset (the byte at which it
begins), bytes, totalBytes and eof; go on at offset + bytes until eof is true.`.replaceAll('\n', ' ');

/**
 * The tool that reads the skills of an agent, and files of their folders: no links, and nothing outside of them. What it
 * answers is trusted as far as the skill is. `skills` holds at least one.
 */
export function createReadSkillTool(skills: readonly Skill[]): Tool {
  const byName = new Map(skills.map((skill) => [skill.name, skill]));
  const tool = defineTool({
    name: 'read_skill',
    description,
    inputSchema: z.strictObject({
      name: z.enum([...byName.keys()]),
      path: relativePath.optional().describe('A file of its folder. Absent: what the skill says.'),
      ...pageRange,
    }),
    effect: 'read',
    trust: 'built-in',
    // What was asked for is never cut: half of what a skill says may be its opposite.
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
    // Nothing that an untrusted skill says is in the system text, so that the model has not read this yet.
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
  return await pageOf(file, offset, length);
}
