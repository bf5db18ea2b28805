import type { PendingItem } from '../../shared/contract/event.ts';
import type { ChildSpec } from './tool.ts';

/** A run that is to work for another one. */
export interface PlannedRun {
  readonly id: string;
  readonly spec: ChildSpec;
}

/** One that is to do a call. */
export interface PlannedChild extends PlannedRun {
  readonly index: number;
  readonly item: PendingItem;
  readonly requestedAtMs: number;
}
