import { existsSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { publicId } from '../../shared/base/ids.ts';
import { mentionsSecrets } from '../../shared/contract/node.ts';
import { taskFile, type TaskDefinition } from '../../shared/contract/orchestration/task-definition.ts';
import { checkedYaml } from '../../shared/base/yaml-file.ts';
import { deepFreeze } from '../../shared/base/json-value.ts';

/**
 * The task of this id, or undefined when there is none. A worker asks whenever it claims a run that works on one; all
 * workers have to get the same answer.
 */
export type LoadTask = (taskId: string) => TaskDefinition | undefined | Promise<TaskDefinition | undefined>;

/** The tasks of a folder by id, which is the name of the file. Adds every problem, and never stops at the first. */
export async function loadTasks(dir: string, problems: string[]): Promise<ReadonlyMap<string, TaskDefinition>> {
  const tasks = new Map<string, TaskDefinition>();
  if (!existsSync(dir)) return tasks;
  for (const file of (await readdir(dir)).filter((name) => /\.ya?ml$/.test(name)).sort()) {
    const id = basename(file, extname(file));
    const found = await problemsOrTask(join(dir, file), id);
    if (!('id' in found)) problems.push(...found.map((problem) => `tasks/${file}: ${problem}`));
    else if (tasks.has(id)) problems.push(`tasks/${file}: task ${id} is already defined`);
    else tasks.set(id, deepFreeze(found));
  }
  return tasks;
}

async function problemsOrTask(path: string, id: string): Promise<TaskDefinition | readonly string[]> {
  try {
    const named = publicId.safeParse(id);
    if (!named.success) return named.error.issues.map(({ message }) => `its name ${message}`);
    const read = checkedYaml(await readFile(path, 'utf8'), taskFile);
    if (!read.ok) return read.problems;
    const { title, description } = read.value;
    if (mentionsSecrets(title) || mentionsSecrets(description)) return ['must not refer to {{ secrets.* }}'];
    return { id, ...read.value };
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}
