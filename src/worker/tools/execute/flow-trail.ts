import { jsonText } from '../../../shared/base/json.ts';
import { serverPrefix } from '../../../shared/contract/agent/mcp.ts';
import { isUntrusted, type TrustClass } from '../../../shared/contract/agent/trust.ts';
import type { DataFlowPolicy, ToolFlow } from '../../../shared/contract/flow.ts';
import type { StepCall } from '../../../shared/contract/journal/turn-state.ts';
import type { AssistantMessage, Message } from '../../../shared/contract/message.ts';
import { FlowMemory, type NamesOf } from '../../guards/flow/memory.ts';
import { trackedFor } from '../../guards/flow/tracked-text.ts';
import { qualifiedNames, scriptToolName } from '../names.ts';
import type { ToolRegistry } from '../registry.ts';
import type { Tool } from '../tool.ts';

/** The conversation of a run, as the data-flow policy has to know it. */
export interface FlowPast {
  /** What the agent's author and people have given beside messages. */
  readonly trusted: readonly string[];
  /**
   * All messages that the run ever had before this step, from this position on: also those that a summary or a handoff has
   * replaced.
   */
  messages(from: number): readonly Message[];
}

/** A step, as far as the trail needs it. */
export interface FlowStep {
  /** All its calls, also those that have ended. */
  readonly calls: readonly StepCall[];
  readonly host: { readonly past: FlowPast };
  readonly preparation: { readonly registry: ToolRegistry };
}

/**
 * Remembers for the data-flow policy what a run has read and sent. Nothing is read before the first sink is about to run; from
 * then on each step adds what is new. A worker that continues the run remembers the same.
 */
export class FlowTrail {
  readonly policy: DataFlowPolicy;
  #memory: FlowMemory | undefined;
  /** How many messages it has, and how many calls of the message after those. */
  #messages = 0;
  #calls = 0;

  constructor(policy: DataFlowPolicy) {
    this.policy = policy;
  }

  /** All that came before this call. Asked in the order of the calls. */
  before({ index }: StepCall, step: FlowStep): FlowMemory {
    const memory = (this.#memory ??= this.#empty(step));
    for (const message of step.host.past.messages(this.#messages)) {
      memory.add(withoutCalls(message, this.#calls));
      this.#messages++;
      this.#calls = 0;
    }
    for (const call of step.calls.slice(this.#calls, index)) memory.add(asMessage(call));
    this.#calls = Math.max(this.#calls, index);
    return memory;
  }

  /** The same in a memory of its own, to which a script adds what it reads. */
  forScript({ index }: StepCall, step: FlowStep): FlowMemory {
    const memory = this.#empty(step);
    for (const message of step.host.past.messages(0)) memory.add(message);
    for (const call of step.calls.slice(0, index)) memory.add(asMessage(call));
    return memory;
  }

  #empty({ host, preparation: { registry } }: FlowStep): FlowMemory {
    const isKnownSink = (name: string) => {
      const tool = registry.find(name);
      return tool !== undefined && isSink(tool, this.policy);
    };
    const namesOf: NamesOf = (name, trust) => {
      const tool = registry.find(name);
      return isOfServer(tool, trust) ? [] : flowNamesOf(tool ?? { name });
    };
    const memory = new FlowMemory(host.past.trusted, isKnownSink, namesOf);
    for (const { name, description, parameters, trust } of registry.catalogue()) {
      const source = registry.find(name)?.source;
      if (!source || !isUntrusted(trust)) continue;
      const text = `${description}\n${jsonText(parameters)}`;
      const [named = name] = qualifiedNames(source);
      memory.addDescription(trackedFor(parameters, text), { name: named, trust }, `${serverPrefix}${source.server}/`);
    }
    return memory;
  }
}

/** Before a handoff, or in the thread, a server's tool may have had the name that code of this worker has here. */
function isOfServer(tool: Tool | undefined, trust: TrustClass | undefined): boolean {
  return trust === 'mcp-derived' && !tool?.source && tool?.trust !== 'mcp-derived';
}

/** A call as a message of its own. */
export function asMessage({ id, name, args }: Pick<StepCall, 'id' | 'name' | 'args'>): AssistantMessage {
  return { role: 'assistant', parts: [{ type: 'tool_call', id, name, args }] };
}

function withoutCalls(message: Message, count: number): Message {
  if (message.role !== 'assistant' || count === 0) return message;
  let seen = 0;
  return { ...message, parts: message.parts.filter(({ type }) => type !== 'tool_call' || ++seen > count) };
}

/** The names by which a policy means a tool. A server's tool never has those of code of the worker. */
export function flowNamesOf({ name, source }: Pick<Tool, 'name' | 'source'>): readonly string[] {
  return source ? qualifiedNames(source) : [name];
}

/**
 * Does a call of this tool carry data out, or take effect? What goes to another agent of the run, or into a script, stays within
 * what is followed: its labels go along.
 */
export function isSink(tool: Tool, policy: DataFlowPolicy): boolean {
  return rulesFor(tool, policy)?.sink ?? (tool.effect !== 'read' && !staysWithin(tool));
}

/** Are calls of this tool judged? Those of sinks are, and those of tools that the policy has rules for. */
export function isJudged(tool: Tool, policy: DataFlowPolicy): boolean {
  return rulesFor(tool, policy) !== undefined || isSink(tool, policy);
}

function rulesFor(tool: Tool, { tools }: DataFlowPolicy): ToolFlow | undefined {
  const name = flowNamesOf(tool).find((one) => Object.hasOwn(tools, one));
  return name === undefined ? undefined : tools[name];
}

function staysWithin({ name, source, delegate, handoff, asks }: Tool): boolean {
  const isOfScripts = name === scriptToolName && source === undefined;
  return isOfScripts || [delegate, handoff, asks].some((way) => way !== undefined);
}
