import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { devFolder, stateFile, type DevState } from '../../client/dev-state.ts';

export function writeDevState(cwd: string, state: DevState): void {
  mkdirSync(devFolder(cwd), { recursive: true });
  writeFileSync(stateFile(cwd), `${JSON.stringify(state, null, 2)}\n`);
}

export function removeDevState(cwd: string): void {
  rmSync(stateFile(cwd), { force: true });
}

const portNote = z.coerce.number().int().min(1).max(65_535);

/** The port that the private Redis of this folder had the last time; 0 when it had none. */
export function redisPortOf(cwd: string): number {
  try {
    return portNote.parse(readFileSync(redisPortFile(cwd), 'utf8'));
  } catch {
    return 0;
  }
}

export function writeRedisPort(cwd: string, redisUrl: string): void {
  mkdirSync(devFolder(cwd), { recursive: true });
  writeFileSync(redisPortFile(cwd), `${new URL(redisUrl).port}\n`);
}

function redisPortFile(folder: string): string {
  return join(devFolder(folder), 'redis-port');
}
