import { RunError } from './errors.ts';
import type { RunRequest } from './run.ts';

/** Fields of a request that make its run a program in place of a turn. */
const programs = ['fanOut'] as const satisfies (keyof RunRequest)[];
/** What only a turn understands. */
const ofTurns = ['thread', 'onBusy', 'chat', 'node', 'task', 'media'] as const satisfies (keyof RunRequest)[];

/** Is the run a program, which has others do the work, in place of a turn? */
export function isProgram(request: RunRequest): boolean {
  return programs.some((field) => request[field] !== undefined);
}

/** Throws `validation` for a request that asks for two things at once. */
export function refuseMixed(request: RunRequest): void {
  const asked = programs.filter((field) => request[field] !== undefined);
  if (asked.length === 0) return;
  const mixed = [...asked.slice(1), ...ofTurns.filter((field) => request[field] !== undefined)];
  if (mixed.length === 0) return;
  const message = `cannot be given with ${asked[0]}`;
  throw new RunError('validation', `the request is not valid: ${mixed[0]}: ${message}`, {
    details: mixed.map((path) => ({ path, message })),
  });
}

/** Every agent that the request names as one, and where. Judges may be functions of the workers: nobody else knows them. */
export function agentsOf({ agent, fanOut }: RunRequest): readonly (readonly [path: string, id: string])[] {
  return [
    ['agent', agent],
    ...(fanOut?.children ?? []).map((child, index) => [`fanOut.children.${index}.agent`, child.agent] as const),
  ];
}
