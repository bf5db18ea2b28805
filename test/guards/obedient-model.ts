import { createScriptedProvider, type ScriptedAnswer } from '../../src/worker/llm/backends/scripted.ts';
import type { LlmProvider, LlmRequest } from '../../src/worker/llm/provider.ts';
import type { Part } from './cast.ts';
import type { ScenarioCall } from './scenario.ts';

/** A model that does whatever it reads: what that is, the scenario says. It keeps nothing, so that any worker can ask it. */
export function obedientModel(parts: readonly Part[]): LlmProvider {
  const byId = new Map(parts.map((part) => [part.id, part]));
  return createScriptedProvider((request) => answer(byId.get(request.model), request), { id: 'obedient' });
}

function answer(part: Part | undefined, { requestId, messages, model, tools = [] }: LlmRequest): ScriptedAnswer {
  if (!part) return { text: `there is no part ${model}` };
  const number = Number(requestId.split(':')[2]);
  const said = messages.flatMap((message) => (message.role === 'user' ? [message.content] : []));
  const turn = Math.max(
    0,
    part.turns.findLastIndex(({ user }) => said.includes(user)),
  );
  const at = number - 1 - part.offset;
  const step = part.turns[turn]?.steps[at] ?? { text: 'It is over.' };
  if ('text' in step) return { text: step.text };
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
