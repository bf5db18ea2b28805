import type { Log } from '../../shared/base/log.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { Accounts } from '../../shared/state/money/accounts.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { Assignment } from './node-run.ts';
import type { Relay } from './relay.ts';
import type { RunThread } from './run-thread.ts';
import type { RunSignals, CancelWatch } from './signals.ts';
import type { RunWriter, FlushTimer } from './writer.ts';
import type { Tenants } from '../../shared/contract/tenants.ts';
import type { MoneyMeter } from '../admission/budget-gate.ts';
import type { AgentModels } from '../agents/agent-models.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';
import type { LoadTask, NamedFunctions } from '../agents/load-agents.ts';
import type { ToolServices } from '../agents/toolkit.ts';
import type { CompactionRequests, CompactionOutcome } from '../turn/compaction/policy.ts';
import type { LimitCaps } from './limits.ts';
import type { Ports } from './ports.ts';
import type { Suspects } from './suspect.ts';

/** A run that this processor call owns. */
export interface OpenRun extends AsyncDisposable {
  readonly record: RunRecord;
  readonly assignment: Assignment;
  /** The fold of its journal. */
  readonly state: TurnState;
  /** Of a run in a thread. */
  readonly thread: RunThread | undefined;
  readonly writer: RunWriter;
  readonly signals: RunSignals;
  readonly log: Log;
  /** The nonce of this processor call. */
  readonly owner: string;
  /** Those of the agent that was asked for, also after a handoff. */
  readonly accounts: Accounts;
  /** How long it has been on workers so far, over all segments, in whole milliseconds. */
  readonly workedMs: () => number;
  /** Of a child: publishes its events to its parents. */
  readonly relay: Relay | undefined;
  /** What its last turn here was prepared with. */
  readonly equipment: { promptChars: number };
}

/** Made once for a process. Each function of this room takes the part that it uses. */
export interface RunDeps extends AgentModels {
  readonly ports: Ports;
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  readonly flushTimer: FlushTimer;
  readonly cancels: CancelWatch;
  readonly limitCaps: LimitCaps;
  /** Longest wait for a provider limit or for money that holds a worker, in milliseconds. */
  readonly maxInlineWaitMs: number;
  /** The budget of each tenant, and its weight where tenants share a provider limit. */
  readonly tenants: Tenants;
  /** What the tools of all runs share. */
  readonly tools: ToolServices;
  /** Absent: there are no tasks. */
  readonly loadTask?: LoadTask | undefined;
  /** The functions that requests name. Absent: there are none. */
  readonly functions?: NamedFunctions | undefined;
  /** Where the caller of an agent in this process asks for compactions. */
  readonly compactionRequests?: CompactionRequests | undefined;
  /** Absent: nothing is counted, and every model by its own name. */
  readonly metrics?: RunCounters | undefined;
  /** Absent: this process runs one run at a time, and there is no other worker. */
  readonly suspects?: Suspects | undefined;
  /** Queues the post-run jobs of a run in a thread. Idempotent. Absent: there are none. */
  readonly queuePostRunJobs?: ((record: RunRecord) => Promise<void>) | undefined;
  /** Digest of an agent's definition, which the archive keeps under it. Absent: runs are not archived. */
  readonly definitionOf?: ((agent: LoadedAgent) => string) | undefined;
  /** Resumes a suspended run. Returns at once. */
  readonly wake: (runId: string, summary: string) => void;
  /** True once this worker is shutting down: runs stop at their next commit. */
  stopping(): boolean;
}

/** Counts what runs cost and do. */
export interface RunCounters {
  readonly money: MoneyMeter;
  /** The name under which a model is counted and limited. */
  readonly modelName: (model: string) => string;
  readonly compacted: (agentId: string, outcome: CompactionOutcome) => void;
  /** A run of this process has acquired the lock of a thread, or does not have it any more. */
  readonly threadLocks: (change: 1 | -1) => void;
}
