import { systemClock } from '../../src/shared/base/clock.ts';
import { newRunId } from '../../src/shared/base/ids.ts';
import { Redactor } from '../../src/shared/base/redact.ts';
import type { RunExport } from '../../src/shared/contract/archive/run-export.ts';
import { stepsOf } from '../../src/shared/contract/archive/steps-of.ts';
import type { RunEvent } from '../../src/shared/contract/event.ts';
import { viewOf } from '../../src/shared/contract/run.ts';
import { definitionRecord } from '../../src/worker/agents/definition-record.ts';
import type { Agent } from '../../src/worker/agents/define-agent.ts';
import { loadedAll, type LoadedAgent } from '../../src/worker/agents/loaded-agent.ts';
import type { Tool } from '../../src/worker/tools/tool.ts';
import { standInSeams, ToolLog } from '../../src/testing/stand-ins.ts';
import type { AgentHandle, CreateAgentOptions } from '../../src/worker/local/agent-handle.ts';
import { createAgentWith } from '../../src/worker/local/create-agent.ts';

type Options = Pick<CreateAgentOptions, 'provider' | 'onPending' | 'agents'> & {
  /** By server: the tools that it offers. */
  readonly servers?: Readonly<Record<string, readonly Tool[]>>;
};

/** Runs an agent in this process, and answers what `millrace export` writes of such a run. */
export async function exportOf(agent: Agent, input: string, { servers = {}, ...options }: Options): Promise<RunExport> {
  const events: RunEvent[] = [];
  const handle = createAgentWith(agent, {
    ...options,
    env: {},
    seams: {
      newRunId: () => newRunId(Date.now()),
      random: () => 0,
      ...standInSeams({ tools: {}, servers }, new ToolLog(), systemClock),
      onEvents: (_, seen) => void events.push(...seen),
    },
  });
  const { runId } = await handle.run(input);
  const loaded = loadedAll([agent, ...(options.agents ?? [])]);
  return JSON.parse(JSON.stringify(exported(runId, { handle, events, loaded })));
}

interface Seen {
  readonly handle: AgentHandle;
  readonly events: readonly RunEvent[];
  readonly loaded: ReadonlyMap<string, LoadedAgent>;
}

function exported(runId: string, seen: Seen): RunExport {
  const { record, entries } = seen.handle.state(runId);
  const events = seen.events.filter((event) => event.runId === runId);
  const redactor = new Redactor();
  const steps = stepsOf({ record, journal: entries, events, children: [] }, { source: 'archive', redactor });
  const loaded = seen.loaded.get(record.request.agent);
  const system = { role: 'system', content: loaded?.definition.instructions ?? '' } as const;
  return {
    kind: 'millrace.run-export',
    v: 1,
    run: viewOf(record),
    request: record.request,
    agent: loaded ? JSON.parse(definitionRecord(loaded, redactor).json) : null,
    initial: steps.initial.some(({ role }) => role === 'system') ? steps.initial : [system, ...steps.initial],
    steps,
    events: events.filter(({ type }) => type !== 'text.delta'),
    children: steps.children.map((child) => exported(child.runId, seen)),
  };
}
