import { z } from 'zod';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import type { JournalEntry, JournalEntryOf } from '../../../src/shared/contract/journal/journal.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import type { ToolHost, ToolRunContext } from '../../../src/worker/tools/execute/batch.ts';
import type { InnerCall, StepCall } from '../../../src/shared/contract/journal/turn-state.ts';
import { definePackageTool, defineTool } from '../../../src/worker/tools/define.ts';
import { createToolExecutor, type ToolSet } from '../../../src/worker/tools/execute/execute.ts';
import type { BatchEnd } from '../../../src/worker/tools/execute/run-batch.ts';
import type { HostContext, Tool, ToolContext, ToolDefinition } from '../../../src/worker/tools/tool.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';

type Definition = Partial<Omit<ToolDefinition<z.ZodObject>, 'name' | 'execute'>>;

/** A read-only tool that takes any arguments, unless `definition` says otherwise. */
export function tool(
  name: string,
  execute: (args: Record<string, unknown>, context: ToolContext) => unknown,
  definition: Definition = {},
): Tool {
  const base = { name, description: `The tool ${name}.`, inputSchema: z.looseObject({}), effect: 'read' as const };
  return defineTool({ ...base, ...definition, execute });
}

/** The tool as a server offers it. */
export function from(server: string, given: Tool): Tool {
  return { ...given, source: { server, tool: given.name, safeName: given.name, definition: `of ${server}` } };
}

export type Script = (call: HostContext['callTool']) => Promise<unknown>;

/** A tool that does what the script says. */
export function scripted(script: Script, name = 'code_execute'): Tool {
  return definePackageTool({
    name,
    description: 'Runs.',
    inputSchema: z.looseObject({}),
    effect: 'idempotent',
    execute: async (_args, context) => await script((called, args) => (context as HostContext).callTool(called, args)),
  });
}

/** What an interrupted run of the only script of this world has left in the journal. */
export function leftBy({ journal }: Pick<World, 'journal'>): Map<number, InnerCall> {
  const left = new Map<number, InnerCall>();
  for (const entry of journal) {
    if (entry.t === 'inner_tool_intent') left.set(entry.number, { fingerprint: entry.fingerprint });
    if (entry.t !== 'inner_tool_result') continue;
    const { number, outcome, trust, sensitivity, flow } = entry;
    left.set(number, { ...(left.get(number) as InnerCall), outcome, trust, sensitivity, flow });
  }
  return left;
}

/** The calls of a step, as the model asked for them. */
export function calls(...asked: readonly (string | (Partial<StepCall> & { name: string }))[]): StepCall[] {
  return asked.map((call, index) => {
    const given = typeof call === 'string' ? { name: call } : call;
    return { index, id: `call_${index}`, args: '{}', status: 'todo', ...given };
  });
}

export interface World {
  readonly clock: FakeClock;
  readonly events: EventBody[];
  readonly journal: JournalEntry[];
  /** The entries of each write. */
  readonly writes: (readonly JournalEntry[])[];
  readonly stop: AbortController;
  /** What `record` does instead of succeeding at once. */
  onRecord: (entries: readonly JournalEntry[]) => Promise<void>;
  run(
    tools: readonly Tool[] | ToolSet,
    asked: readonly StepCall[],
    host?: Partial<ToolHost>,
    context?: Partial<ToolRunContext>,
  ): Promise<BatchEnd>;
  /** The result of a call as the journal has it. */
  result(index: number): JournalEntryOf<'tool_result'>;
  eventsOf<T extends EventBody['type']>(type: T): Extract<EventBody, { type: T }>[];
}

export function makeWorld(): World {
  const world: World = {
    clock: new FakeClock(),
    events: [],
    journal: [],
    writes: [],
    stop: new AbortController(),
    onRecord: async () => {},
    async run(tools, asked, host, context) {
      const executor = createToolExecutor(tools, {
        runId: 'R',
        tenant: 'T',
        keyFor: (step, index) => `R:s${step}:t${index}`,
        ...context,
      });
      const end = await executor.run(
        asked,
        {
          step: 1,
          maxDelegated: 4,
          maxParallel: 8,
          unknownCalls: [],
          promoted: [],
          withdrawn: [],
          messages: [],
          past: { trusted: [], messages: () => [] },
          asked: new Set(),
          clock: world.clock,
          redactor: new Redactor(['hunter2-secret']),
          emit: (event) => void world.events.push(event),
          async record(entries, events = []) {
            world.events.push(...events);
            await world.onRecord(entries);
            world.writes.push(entries);
            world.journal.push(...entries);
          },
          ...host,
        },
        world.stop.signal,
      );
      if (end.kind === 'suspended') world.events.push(...end.events);
      return end;
    },
    result(index) {
      const entry = world.journal.find((found) => found.t === 'tool_result' && found.index === index);
      if (entry?.t !== 'tool_result') throw new Error(`call ${index} has no result`);
      return entry;
    },
    eventsOf<T extends EventBody['type']>(type: T) {
      return world.events.filter((event): event is Extract<EventBody, { type: T }> => event.type === type);
    },
  };
  return world;
}
