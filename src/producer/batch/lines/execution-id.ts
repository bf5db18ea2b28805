import { sha256 } from '../../../shared/base/ids.ts';

const maxExecutionId = 120;

/** The same line of a batch of the same name is the same run. */
export function executionIdOf(name: string, key: string): string {
  const id = `batch:${name}:${key}`;
  return id.length <= maxExecutionId ? id : `batch:${sha256(id).slice(0, 40)}`;
}
