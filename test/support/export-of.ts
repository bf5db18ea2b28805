import { Redactor } from '../../src/shared/base/redact.ts';
import type { RunExport } from '../../src/shared/contract/archive/run-export.ts';
import { stepsOf } from '../../src/shared/contract/archive/steps-of.ts';
import type { RunEvent } from '../../src/shared/contract/event.ts';
import { viewOf } from '../../src/shared/contract/run.ts';
import { definitionRecord } from '../../src/worker/agents/definition-record.ts';
import type { Agent } from '../../src/worker/agents/define-agent.ts';
import { loadedAll } from '../../src/worker/agents/loaded-agent.ts';
import { createAgent } from '../../src/worker/index.ts';
import type { CreateAgentOptions } from '../../src/worker/local/agent-handle.ts';

/** Runs an agent in this process, and answers what `millrace export` writes of such a run. */
export async function exportOf(
  agent: Agent,
  input: string,
  options: Pick<CreateAgentOptions, 'provider' | 'onPending'>,
): Promise<RunExport> {
  const handle = createAgent(agent, { ...options, env: {} });
  const stream = handle.stream(input);
  const events: RunEvent[] = [];
  for await (const event of stream) events.push(event);
  const { runId } = await stream.result;
  const { record, entries } = handle.state(runId);
  const redactor = new Redactor();
  const steps = stepsOf({ record, journal: entries, events, children: [] }, { source: 'archive', redactor });
  const system = { role: 'system', content: agent.definition.instructions } as const;
  const loaded = loadedAll([agent]).get(agent.definition.id);
  return JSON.parse(
    JSON.stringify({
      kind: 'millrace.run-export',
      v: 1,
      run: viewOf(record),
      request: record.request,
      agent: loaded ? JSON.parse(definitionRecord(loaded, redactor).json) : null,
      initial: steps.initial.some(({ role }) => role === 'system') ? steps.initial : [system, ...steps.initial],
      steps,
      events: events.filter(({ type }) => type !== 'text.delta'),
      children: [],
    } satisfies RunExport),
  );
}
