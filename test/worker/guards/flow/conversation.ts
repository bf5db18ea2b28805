import { dataFlowPolicy, type DataFlowPolicy, type ShownFlow } from '../../../../src/shared/contract/flow.ts';
import type { FlowLabel, Message, Sensitivity } from '../../../../src/shared/contract/message.ts';
import type { ToolEffect } from '../../../../src/shared/contract/agent/agent.ts';
import { judgeFlow } from '../../../../src/worker/guards/flow/judge.ts';
import { FlowMemory } from '../../../../src/worker/guards/flow/memory.ts';

export const page = (content: string, sensitivity?: Sensitivity): Message => ({
  role: 'tool',
  toolCallId: 'page',
  toolName: 'read_page',
  trust: 'web-search',
  content,
  sensitivity,
});
export const pageSource = { name: 'read_page', trust: 'web-search' } as const;

/** A result of a tool of the operator's own. */
export const result = (content: string, toolName = 'contacts', sensitivity?: Sensitivity): Message => ({
  role: 'tool',
  toolCallId: toolName,
  toolName,
  content,
  sensitivity,
});

export const said = (content: string, flow?: FlowLabel): Message => ({ role: 'user', content, flow });

export const called = (name: string, args: unknown): Message => ({
  role: 'assistant',
  parts: [{ type: 'tool_call', id: name, name, args: JSON.stringify(args) }],
});

const readers = new Set(['read_page', 'contacts', 'lookup']);

export function memoryOf(messages: readonly Message[], instructions: readonly string[] = []): FlowMemory {
  const memory = new FlowMemory(instructions, (name) => !readers.has(name));
  for (const message of messages) memory.add(message);
  return memory;
}

export interface Call {
  readonly toolName?: string;
  readonly names?: readonly string[];
  readonly args: unknown;
  readonly parameters?: Record<string, unknown>;
  readonly effect?: ToolEffect;
  readonly policy?: Partial<Record<keyof DataFlowPolicy, unknown>>;
}

/** What is found about a call after a conversation. */
export function findings(messages: readonly Message[] | FlowMemory, call: Call): readonly ShownFlow[] {
  const { toolName = 'send', names = [toolName], args, parameters = {}, effect = 'once', policy = {} } = call;
  const memory = messages instanceof FlowMemory ? messages : memoryOf(messages);
  return judgeFlow(
    { toolName, names, args, parameters, effect },
    memory,
    dataFlowPolicy.parse({ mode: 'enforce', ...policy }),
  );
}

/** The rules and arguments of what is found. */
export function found(messages: readonly Message[] | FlowMemory, call: Call): string[] {
  return findings(messages, call).map(({ rule, argument }) => (argument === undefined ? rule : `${rule} ${argument}`));
}
