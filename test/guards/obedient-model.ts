import { createScriptedProvider, type ScriptedAnswer } from '../../src/worker/llm/backends/scripted.ts';
import type { LlmProvider, LlmRequest } from '../../src/worker/llm/provider.ts';
import type { CastOptions, Part } from './cast.ts';
import type { ScenarioCall } from './scenario.ts';

/** A model that does whatever it reads: what that is, the scenario says. It keeps nothing, so that any worker can ask it. */
export function obedientModel(parts: readonly Part[], passed: CastOptions['passed']): LlmProvider {
  const byId = new Map(parts.map((part) => [part.id, part]));
  const script = (request: LlmRequest, signal: AbortSignal) => answer(byId.get(request.model), request, passed, signal);
  return createScriptedProvider(script, { id: 'obedient' });
}

async function answer(
  part: Part | undefined,
  { requestId, messages, model, tools = [] }: LlmRequest,
  passed: CastOptions['passed'],
  signal: AbortSignal,
): Promise<ScriptedAnswer> {
  if (!part) return { text: `there is no part ${model}` };
  const [runId = '', , number] = requestId.split(':');
  const said = messages.flatMap((message) => (message.role === 'user' ? [message.content] : []));
  const turn = Math.max(
    0,
    part.turns.findLastIndex(({ user }) => said.includes(user)),
  );
  const at = Number(number) - 1 - part.offset;
  const step = part.turns[turn]?.steps[at] ?? { text: 'It is over.' };
  if ('text' in step) return { text: step.text };
  if (step.held) await passed(runId, signal);
  // Of a server whose tool has the name of another one, it is offered with the server's name in front.
  const offered = (name: string) => tools.find((tool) => plainName(tool.name) === name)?.name ?? name;
  const id = (index: number) => `${part.id}/${turn}/${at}/${index}`;
  return { toolCalls: step.calls.map(({ name, args }, index) => ({ name: offered(name), args, id: id(index) })) };
}

/** A tool's name as its scenario has it. */
export function plainName(offered: string): string {
  return offered.replace(/^[A-Za-z0-9_-]*?__/, '');
}

/** The call of the scenario that an event is about: `shift` is the number of the checkpoint among the calls of its script. */
export function calledBy(parts: readonly Part[], toolCallId: string, shift = Infinity): ScenarioCall | undefined {
  const [id, turn, step, index, inner] = toolCallId.split('/');
  const said = parts.find((part) => part.id === id)?.turns[Number(turn)]?.steps[Number(step)];
  if (!said || 'text' in said) return undefined;
  if (inner === undefined) return said.listed[Number(index)];
  return said.listed[Number(inner) - (Number(inner) > shift ? 2 : 1)];
}
