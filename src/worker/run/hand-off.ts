import { RunError } from '../../shared/base/errors.ts';
import type { JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import { jsonText } from '../../shared/base/json.ts';
import { payloadDigest } from '../../shared/contract/thread/turn-log.ts';
import {
  boundary,
  crossing,
  defaultHandoffFilter,
  filterFrom,
  type HandoffFilter,
} from '../../shared/contract/handoff/handoff-filters.ts';
import { continueFrom, type TurnState } from '../../shared/contract/journal/fold.ts';
import type { Message } from '../../shared/contract/message.ts';
import { crossMessages, type CrossedTexts } from '../guards/leaks/texts.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';
import { leakEvent } from '../tools/leak-event.ts';
import { lookForFiles, readerOf } from './input-files.ts';
import { crossingWatchOf } from './leak-watch.ts';
import type { RunDeps, OpenRun } from './run-context.ts';

/**
 * Makes another agent the active one. It sees only what its filter lets through. Throws `handoff_target_not_found`, and what
 * a filter throws.
 */
export async function handOff(
  run: OpenRun,
  { to, state }: Extract<TurnOutcome, { status: 'handed_off' }>,
  { agents, ports, tools }: Pick<RunDeps, 'agents' | 'ports' | 'tools'>,
): Promise<OpenRun> {
  const target = agents.get(to);
  if (!target) throw new RunError('handoff_target_not_found', `this worker has no agent ${to} to hand off to`);
  const { assignment } = run;
  const from = assignment.agent?.definition.id ?? run.record.request.agent;
  const filter = boundary(filterTo(to, assignment.agent));
  const isCustom = jsonText(filter.descriptor).includes('"custom"');
  const { value: crossed, leaks } = watched(run, target, crossing(filter, state.messages), state, agents);
  const entry: JournalEntryOf<'handed_off'> = {
    v: 1,
    t: 'handed_off',
    step: state.step,
    from,
    to,
    filter: filter.descriptor,
    ...((isCustom || leaks.length > 0) && { messages: [...crossed] }),
    digest: payloadDigest(crossed),
  };
  const growing = continueFrom(state);
  growing.add(entry);
  // What a filter of one's own answers are other messages.
  await lookForFiles(growing.state.messages, readerOf(run.record, tools), ports);
  for (const leak of leaks) run.writer.emit(leakEvent(leak));
  run.writer.emit({ type: 'handoff', fromAgentId: from, toAgentId: to, filter: filter.descriptor });
  await run.writer.commit({ entries: [entry] });
  run.writer.setActiveAgent(to);
  return { ...run, assignment: { ...assignment, agent: target, append: undefined }, state: growing.state };
}

/** The conversation as it crosses, where something watches what the next agent gets. */
function watched(
  { record, assignment }: OpenRun,
  { definition: { id } }: LoadedAgent,
  messages: readonly Message[],
  { denials }: TurnState,
  agents: RunDeps['agents'],
): CrossedTexts<readonly Message[]> {
  const toolsOf = (agentId: string) => agents.get(agentId)?.definition.tools ?? [];
  const watch = crossingWatchOf(record, assignment.agent?.definition, toolsOf);
  return watch ? crossMessages(messages, (text) => watch.handoff(id, text, denials)) : { value: messages, leaks: [] };
}

/** The filter for a handoff to this agent: from code, from the definition, or the default. */
function filterTo(to: string, agent: LoadedAgent | undefined): HandoffFilter {
  const own = agent?.handoffFilters?.get(to);
  if (own) return own;
  const asked = agent?.definition.handoffs.find((handoff) => handoff.agent === to)?.filter;
  return asked ? filterFrom(asked) : defaultHandoffFilter;
}
