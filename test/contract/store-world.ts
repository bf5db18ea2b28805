import { expect } from 'vitest';
import type { CancelRequest } from '../../src/shared/contract/control.ts';
import type { RunEvent } from '../../src/shared/contract/event.ts';
import type { RunRecord } from '../../src/shared/contract/run.ts';
import type { RunStore } from '../../src/shared/state/run/run-store.ts';
import type { Claim, ClaimRequest } from '../../src/shared/state/run/claim.ts';
import { aClaim, aRecord, opening, recovering } from './run-fixtures.ts';

/** A run store with the producer's side of it. */
export interface StoreWorld {
  readonly runs: RunStore;
  /** Adds a run with `run.queued` as its event 1. */
  seed(record: RunRecord): Promise<void>;
  /** Sets the durable cancel flag of a run. */
  cancel(runId: string, cancel: CancelRequest): Promise<void>;
  /** The entries of the journal. */
  journal(runId: string): Promise<readonly unknown[]>;
  /** The whole event log. */
  events(runId: string): Promise<readonly RunEvent[]>;
  /** Live messages of a run from now on, each a group of events. */
  live(runId: string): Promise<readonly (readonly RunEvent[])[]>;
}

export type Claimed = Extract<Claim, { kind: 'claimed' }>;

export type MakeWorld = () => Promise<StoreWorld>;

export async function claim(
  world: Pick<StoreWorld, 'runs'>,
  runId: string,
  changes: Partial<ClaimRequest> = {},
): Promise<Claim> {
  return await world.runs.claim(aClaim(runId, changes), opening(runId), recovering(runId));
}

/** Claims, and fails the test unless that succeeds. */
export async function claimed(
  world: Pick<StoreWorld, 'runs'>,
  runId: string,
  changes: Partial<ClaimRequest> = {},
): Promise<Claimed & { owner: string }> {
  const request = aClaim(runId, changes);
  const answer = await world.runs.claim(request, opening(runId), recovering(runId));
  expect(answer.kind).toBe('claimed');
  return { ...(answer as Claimed), owner: request.owner };
}

export async function seeded(world: StoreWorld, changes: Partial<RunRecord> = {}): Promise<string> {
  const record = aRecord(changes);
  await world.seed(record);
  return record.runId;
}

/** The types of a log whose numbers are 1, 2, 3 and so on; anything else fails the test. */
export async function types(world: StoreWorld, runId: string): Promise<string[]> {
  const events = await world.events(runId);
  expect(events.map((event) => event.sequenceNumber)).toEqual(events.map((_, index) => index + 1));
  return events.map((event) => event.type);
}
