import { RunError } from '../../base/errors.ts';
import { maxEvaluatedInputBytes, type EvaluateRequest } from './requests.ts';
import type { RunRequest } from '../run.ts';

/** Fields of a request that make its run a program in place of a turn. */
const programs = ['fanOut', 'evaluate', 'taskRun'] as const satisfies (keyof RunRequest)[];
/** What only a turn understands. */
const ofTurns = ['thread', 'onBusy', 'chat', 'node', 'task', 'media'] as const satisfies (keyof RunRequest)[];

/** Is the run a program, which has others do the work, in place of a turn? */
export function isProgram(request: RunRequest): boolean {
  return programs.some((field) => request[field] !== undefined);
}

/** Throws `validation` for a request that asks for two things at once, or for more than its prompts have room for. */
export function refuseMixed(request: RunRequest): void {
  const [asked, ...others] = programs.filter((field) => request[field] !== undefined);
  if (asked === undefined) return;
  const mixed = [...others, ...ofTurns.filter((field) => request[field] !== undefined)];
  const problems = mixed.map((path) => ({ path: path as string, message: `cannot be given with ${asked}` }));
  if (request.evaluate && Buffer.byteLength(request.input) > maxEvaluatedInputBytes)
    problems.push({ path: 'input', message: `at most ${maxEvaluatedInputBytes} bytes with evaluate` });
  const [first] = problems;
  if (!first) return;
  throw new RunError('validation', `the request is not valid: ${first.path}: ${first.message}`, { details: problems });
}

type Named = readonly [path: string, agentId: string];

/** Every agent that the request names as one, and where. Judges of a fan-out may be functions, which only workers know. */
export function agentsOf({ agent, fanOut, evaluate, taskRun }: RunRequest): readonly Named[] {
  if (taskRun) return [];
  return [
    ['agent', agent],
    ...(fanOut?.children ?? []).map((child, index): Named => [`fanOut.children.${index}.agent`, child.agent]),
    ...(evaluate ? inEvaluation(evaluate) : []),
  ];
}

function inEvaluation({ generator, evaluator }: EvaluateRequest): readonly Named[] {
  const judge: Named =
    typeof evaluator === 'string' ? ['evaluate.evaluator', evaluator] : ['evaluate.evaluator.judge', evaluator.judge];
  return [['evaluate.generator', generator], judge];
}
