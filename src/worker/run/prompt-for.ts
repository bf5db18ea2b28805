import { defined } from '../../shared/base/collections.ts';
import { maxInstructionsChars } from '../../shared/contract/agent/agent.ts';
import { RunError } from '../../shared/base/errors.ts';
import { mentionsSecrets } from '../../shared/base/template-syntax.ts';
import { defaultPrompt, systemText, type PromptBuilder, type PromptContext } from '../prompt/system-prompt.ts';
import { within } from '../../shared/base/deadline.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';
import type { Ports } from './ports.ts';
import type { RunDeps, OpenRun } from './run-context.ts';

const buildMs = 30_000;

type PromptRun = Pick<OpenRun, 'record' | 'assignment' | 'state' | 'thread' | 'writer' | 'signals'>;
type PromptDeps = Pick<RunDeps, 'loadTask' | 'tools'> & { readonly ports: Pick<Ports, 'clock' | 'redactor'> };

/**
 * The system text of a run, the same on every worker. Throws `validation` for an unknown task and for an invalid prompt,
 * `internal` for a builder that fails or does not answer within 30 s, and the signal's reason.
 */
export async function systemFor(run: PromptRun, agent: LoadedAgent, deps: PromptDeps): Promise<string> {
  const { prompt: build, definition, skills } = agent;
  const parts = { append: run.assignment.append, skills };
  const { prompt: begunWith } = run.state;
  if (begunWith !== undefined) return systemText({ ...parts, prompt: begunWith });
  const context = await contextOf(run, agent, deps);
  const prompt = build
    ? await builtBy(build, run.signals.signal, agent, context, deps.ports)
    : defaultPrompt(definition, context);
  const ofThread = context.task !== undefined && run.record.request.task === undefined;
  if (!build && !ofThread) return systemText({ ...parts, prompt });
  // Instructions, tasks and skills are files that all workers have. But a function may read a clock, and a thread may get
  // another task: the model must not be sent another prompt in the middle of its conversation.
  const at = new Date(deps.ports.clock.now()).toISOString();
  await run.writer.commit({ entries: [{ v: 1, t: 'agent_started', model: definition.model, at, prompt }] });
  return systemText({ ...parts, prompt });
}

async function contextOf(run: PromptRun, { definition }: LoadedAgent, deps: PromptDeps): Promise<PromptContext> {
  const { request } = run.record;
  const taskId = request.task ?? run.thread?.manifest.taskId;
  const task = taskId === undefined ? undefined : await deps.loadTask?.(taskId);
  if (taskId !== undefined && !task) throw new RunError('validation', `there is no task ${taskId}`);
  return defined({
    directories: deps.tools.directoriesOf?.(definition) ?? [],
    background: request.overrides?.background ?? false,
    cwd: deps.tools.workspaceOf?.(definition),
    task,
    threadId: request.thread,
  });
}

async function builtBy(
  build: PromptBuilder,
  signal: AbortSignal,
  { definition }: LoadedAgent,
  context: PromptContext,
  { clock, redactor }: PromptDeps['ports'],
): Promise<string> {
  const settled = await within(buildMs, () => build(definition, context), clock, signal);
  signal.throwIfAborted();
  const what = `the prompt of agent ${definition.id}`;
  if (settled.kind !== 'value') {
    const why = settled.kind === 'threw' ? 'could not be built' : `was not there within ${buildMs} ms`;
    throw new RunError('internal', `${what} ${why}`, settled.kind === 'threw' ? { cause: settled.error } : {});
  }
  const problem = problemOf(settled.value);
  if (problem !== undefined) throw new RunError('validation', `${what} ${problem}`);
  // Neither the stored journal nor the model may see a credential of this process.
  return redactor.secrets(settled.value as string);
}

function problemOf(prompt: unknown): string | undefined {
  if (typeof prompt !== 'string') return 'is no text';
  if (prompt.length > maxInstructionsChars) return `has more than ${maxInstructionsChars} characters`;
  return mentionsSecrets(prompt) ? 'must not refer to {{ secrets.* }}' : undefined;
}
