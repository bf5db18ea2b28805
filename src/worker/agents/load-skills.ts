import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { RunError } from '../../shared/base/errors.ts';
import type { Skill } from '../../shared/contract/agent/skill.ts';
import { readSkillFile, skillFileName } from '../tools/builtin/read-skill.ts';

/** The skills of a folder by name: each is a folder with a `SKILL.md`. Adds every problem, and never stops at the first. */
export async function loadSkills(dir: string, problems: string[]): Promise<ReadonlyMap<string, Skill>> {
  const skills = new Map<string, Skill>();
  if (!existsSync(dir)) return skills;
  for (const name of (await readdir(dir)).sort()) {
    const folder = join(dir, name);
    if (name.startsWith('.') || !(await isFolder(folder))) continue;
    const found = await problemsOrSkill(folder);
    if ('name' in found) skills.set(name, found);
    else problems.push(...found.map((problem) => `skills/${name}/${skillFileName}: ${problem}`));
  }
  return skills;
}

async function problemsOrSkill(folder: string): Promise<Skill | readonly string[]> {
  try {
    const { manifest } = await readSkillFile(folder);
    if (manifest.name === basename(folder)) return Object.freeze({ ...manifest, folder });
    return [`name: is ${manifest.name}, and has to be the name of its folder`];
  } catch (error) {
    if (error instanceof RunError && Array.isArray(error.details)) return error.details.map(String);
    return [error instanceof Error ? error.message : String(error)];
  }
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
