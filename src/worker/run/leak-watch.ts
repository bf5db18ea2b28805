import type { RunRecord } from '../../shared/contract/run.ts';
import {
  endedByDenial,
  withDenials,
  type CausalityMonitor,
  type Denial,
  type LeakReport,
  type LeakWatch,
  type ProtocolMode,
} from '../../shared/contract/agent/lateral-leak.ts';
import { trustClass, type TrustClass } from '../../shared/contract/agent/trust.ts';
import type { ErrorCode } from '../../shared/base/errors.ts';
import type { Message } from '../../shared/contract/message.ts';
import { resultsSoFar, type TurnState } from '../../shared/contract/journal/fold.ts';
import { strictest, cross, type CrossingContext } from '../guards/leaks/causality.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';
import type { CrossingWatch } from '../tools/execute/batch.ts';

type Watched = Pick<RunRecord, 'request' | 'parent'>;
type Definition = Pick<LoadedAgent['definition'], 'causalityMonitor' | 'mergeGuard' | 'tools'>;

/** The monitor that applies in a run: that of the active agent, and those of its parents. */
function monitorOf({ parent }: Watched, definition: Definition | undefined): CausalityMonitor | undefined {
  return strictest(definition?.causalityMonitor, parent?.leaks?.causality);
}

/** What was denied in the tree of runs, as far as this run knows: what its parents knew, and these of its own. */
function chainOf({ request, parent }: Watched, own: readonly Denial[]): readonly Denial[] {
  // The journal does not name the agent that a run began with.
  const named = own.map((denial) => (denial.agentId === '' ? { ...denial, agentId: request.agent } : denial));
  return withDenials(parent?.leaks?.denials ?? [], named);
}

/** What watches the texts that cross from this run to others and back; undefined where nothing does. */
export function crossingWatchOf(
  record: Watched,
  definition: Definition | undefined,
  toolsOf: (agentId: string) => readonly string[],
): CrossingWatch | undefined {
  const monitor = monitorOf(record, definition);
  if (!monitor) return undefined;
  const about = (denials: readonly Denial[], receives: readonly string[]): CrossingContext => {
    return { monitor, chain: chainOf(record, denials), receives };
  };
  return {
    to: (agentId, text, denials) => cross(text, 'child-input', about(denials, toolsOf(agentId))),
    back: (text, denials) => cross(text, 'child-answer', about(denials, definition?.tools ?? [])),
    handoff: (agentId, text, denials) => cross(text, 'handoff', about(denials, toolsOf(agentId))),
  };
}

/** What children of a run have to watch for and to report; undefined where no guard needs it. */
export function watchFor(
  record: Watched,
  definition: Definition | undefined,
  { denials }: Pick<TurnState, 'denials'>,
): LeakWatch | undefined {
  const causality = monitorOf(record, definition);
  const isGuarded = definition?.mergeGuard !== undefined && definition.mergeGuard.strictness !== 'off';
  const isMerged = isGuarded && record.request.fanOut?.mergeStrategy.kind === 'judge-merge';
  if (!causality && !isMerged && !record.parent?.leaks) return undefined;
  return { causality, denials: [...chainOf(record, denials)] };
}

/** What a run that is watched reports to its parents at its end. */
export function reportOf(record: Watched, state: TurnState, error: ErrorCode | undefined): LeakReport | undefined {
  if (!record.parent?.leaks) return undefined;
  const agentId = state.agentId ?? record.request.agent;
  const ended: readonly Denial[] = endedByDenial(error) ? [{ agentId, kind: 'run' }] : [];
  const own = withDenials(state.denials, ended);
  const denials = chainOf({ request: record.request }, own);
  return { denials: [...denials], origins: [...originsOf(record, state)] };
}

/** The classes of all texts that the run has read, also those that it does not see any more. */
function originsOf({ parent }: Watched, state: TurnState): ReadonlySet<TrustClass> {
  const messages = [...state.initial, ...state.earlier, ...state.own, ...resultsSoFar(state)];
  const ofChildren = [...state.childEnds.values()].flatMap(({ leaks, flow }) => [
    ...(leaks?.origins ?? []),
    ...(flow?.sources ?? []).map(({ trust }) => trust),
  ]);
  const given = (parent?.flow?.sources ?? []).map(({ trust }) => trust);
  return new Set([...messages.flatMap(originsIn), ...ofChildren, ...given]);
}

function originsIn(message: Message): readonly TrustClass[] {
  if (message.role !== 'tool' && message.role !== 'user') return [];
  const quoted = (message.flow?.sources ?? []).map(({ trust }) => trust);
  const own = message.role === 'tool' ? trustClass.safeParse(message.trust).data : undefined;
  return own ? [own, ...quoted] : quoted;
}

/** What becomes of control characters in the runs of an agent; undefined for nothing. */
export function protocolModeOf({
  protocolGuard,
}: Pick<LoadedAgent['definition'], 'protocolGuard'>): Exclude<ProtocolMode, 'off'> | undefined {
  return protocolGuard && protocolGuard.mode !== 'off' ? protocolGuard.mode : undefined;
}
