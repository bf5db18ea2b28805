import type { RunEvent } from '../../shared/contract/event.ts';
import { addUsage, zeroUsage } from '../../shared/contract/money.ts';
import type { RunOutcomeView } from '../../shared/contract/run.ts';
import { usageOfCost } from '../turn/cost-event.ts';
import { outcomeOfRun } from '../orchestration/fan-out-child.ts';
import type { FanOutChild, Spent } from '../orchestration/fan-out-options.ts';

/** What runs one input and shows how: an `AgentHandle`, or anything like it. */
export interface StreamingAgent {
  readonly id: string;
  stream(
    input: string,
    options: { readonly signal: AbortSignal },
  ): AsyncIterable<RunEvent> & { readonly result: Promise<RunOutcomeView> };
}

/** An agent of this process as a child of a fan-out. A handle has one run at a time: each child needs its own. */
export function childOf(agent: StreamingAgent, input: string): FanOutChild {
  return {
    agentId: agent.id,
    async invoke(signal, report) {
      const stream = agent.stream(input, { signal });
      let spent: Spent = { usage: zeroUsage, costMicrocents: 0, toolCalls: 0 };
      for await (const event of stream) {
        spent = after(spent, event);
        report(spent);
      }
      return outcomeOfRun(await stream.result, spent.toolCalls);
    },
  };
}

function after(spent: Spent, event: RunEvent): Spent {
  if (event.type === 'tool.execute.start' && event.parentToolCallId === undefined)
    return { ...spent, toolCalls: spent.toolCalls + 1 };
  if (event.type !== 'cost.updated') return spent;
  return {
    ...spent,
    usage: addUsage(spent.usage, usageOfCost(event)),
    costMicrocents: event.cumulativeCostMicrocents,
  };
}
