import type { FlowLabel } from '../../src/shared/contract/message.ts';
import type { NewRun } from '../../src/shared/state/run/create-runs.ts';
import { newNonce, runIdForChild } from '../../src/shared/base/ids.ts';
import { lineage, runRequest } from '../../src/shared/contract/run.ts';
import type { Children } from '../../src/shared/state/run/children/children.ts';
import type { Waits } from '../../src/shared/state/run/waits/waits.ts';
import type { RecordPatch } from '../../src/shared/state/run/commit.ts';
import { aCommit, aTerminalCommit } from './run-fixtures.ts';
import { claimed, type StoreWorld } from './store-world.ts';

/** Runs, and what one of them gets of its children. */
export interface ChildrenWorld extends StoreWorld {
  readonly children: Children;
  readonly waits: Waits;
}

const at = '2026-01-02T03:04:05.000Z';

export function childOf(parentRunId: string, step: string, input = 'do it', flow?: FlowLabel): NewRun {
  const ancestors = [{ runId: parentRunId, agentId: 'support' }];
  return {
    runId: runIdForChild(parentRunId, step),
    tenant: 'default',
    kind: 'agent.turn',
    queue: 'runs',
    request: runRequest.parse({ agent: 'helper', input }),
    parent: lineage.parse({ runId: parentRunId, depth: 1, ancestors, flow }),
    bodyHash: input,
    nonce: newNonce(),
  };
}

/** A run that waits for these. */
export async function suspendOn(
  world: ChildrenWorld,
  runId: string,
  ids: readonly string[],
  segment = 0,
): Promise<void> {
  const { owner, seq } = await claimed(world, runId, { segment });
  const pending = ids.map((id) => ({ kind: 'child' as const, id, requestedAt: at }));
  const entry = { v: 1, t: 'suspended', seq: 1, reason: 'child', at } as const;
  const patch = { status: 'suspended', pending } as const;
  await world.runs.commit({ runId, owner }, aCommit(seq, { entries: [entry], patch, release: 'suspended' }));
}

/** A worker, that of the claim or a new one, ends a run without notifying its parent. */
export async function end(
  world: ChildrenWorld,
  runId: string,
  patch: Pick<RecordPatch, 'status' | 'result' | 'steps' | 'costMicrocents' | 'flow'> = {},
  worker?: Awaited<ReturnType<typeof claimed>>,
): Promise<void> {
  const { owner, seq } = worker ?? (await claimed(world, runId));
  const commit = aTerminalCommit(runId, seq);
  await world.runs.commit({ runId, owner }, { ...commit, patch: { ...commit.patch, ...patch } });
}
