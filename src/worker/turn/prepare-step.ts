import { problemsOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError, type ToolErrorKind } from '../../shared/base/errors.ts';
import type { Message } from '../../shared/contract/message.ts';
import { defined } from '../../shared/base/collections.ts';
import type { Clock } from '../../shared/base/clock.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { JournalFold } from '../../shared/contract/journal/fold.ts';
import type { ToolExecutor } from '../tools/execute/execute.ts';
import { within } from '../../shared/base/deadline.ts';

/** What a step is about to begin with. */
export interface StepView {
  /** From 1. */
  readonly stepNumber: number;
  /** The conversation so far, for reading. */
  readonly messages: readonly Message[];
  /** Tool calls of the step before. `args` is the model's own text. */
  readonly lastCalls: readonly {
    readonly name: string;
    readonly args: string;
    readonly errorKind?: ToolErrorKind;
  }[];
}

const answer = z
  .strictObject({
    model: z.string().trim().min(1).max(200).optional(),
    provider: z.string().min(1).optional(),
    toolChoice: z.union([z.enum(['auto', 'none']), z.strictObject({ name: z.string() })]).optional(),
  })
  .nullish();

/** What this step has to do. With a model or a provider nothing else is tried, whatever happens. */
export type StepPlan = NonNullable<z.infer<typeof answer>>;

/**
 * Asked before the model call of each step, by every worker that makes it. Nothing returned: the step is as usual. Has
 * ten seconds; a throw, a delay and an answer of another shape fail the run with `internal`.
 */
export type PrepareStep = (step: StepView) => StepPlan | undefined | Promise<StepPlan | undefined>;

const timeoutMs = 10_000;

/** The turn, as far as a plan needs it. */
interface Planned {
  readonly deps: {
    readonly prepareStep?: PrepareStep | undefined;
    readonly tools: Pick<ToolExecutor, 'advertised'>;
    readonly clock: Clock;
    readonly redactor: Redactor;
  };
  readonly growing: Pick<JournalFold, 'state'>;
  readonly signal: AbortSignal;
}

/** Asks the program what the step with this number has to do. Throws `internal` for everything that is no plan. */
export async function askForPlan({ deps, signal, growing: { state } }: Planned, stepNumber: number): Promise<StepPlan> {
  const { prepareStep: ask, clock, redactor } = deps;
  if (!ask) return {};
  const lastCalls = state.calls.map(({ name, args, result }) => defined({ name, args, errorKind: result?.errorKind }));
  const step = { stepNumber, messages: state.messages, lastCalls };
  const ended = await within(timeoutMs, () => ask(step), clock, signal);
  if (ended.kind === 'threw') {
    const text = ended.error instanceof Error ? `: ${redactor.text(ended.error.message)}` : '';
    throw new RunError('internal', `prepareStep failed${text}`, { cause: ended.error });
  }
  if (ended.kind !== 'value') throw new RunError('internal', `prepareStep gave no answer within ${timeoutMs} ms`);
  const parsed = answer.safeParse(ended.value);
  if (!parsed.success) {
    const problems = problemsOf(parsed.error, 'its answer');
    throw new RunError('internal', `prepareStep answered with something else than a plan: ${problems.join('; ')}`);
  }
  const { toolChoice } = parsed.data ?? {};
  const isTool = (name: string) =>
    deps.tools.advertised(state.promoted, state.loop.withdrawn).some((tool) => tool.name === name);
  if (typeof toolChoice === 'object' && !isTool(toolChoice.name))
    throw new RunError('internal', `prepareStep asks for the tool ${toolChoice.name}, which the agent does not have`);
  return parsed.data ?? {};
}
