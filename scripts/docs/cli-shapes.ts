import { diagnosisView } from '../../src/producer/client/diagnose/view.ts';
import { manyAnswer, runCounts } from '../../src/producer/client/many-runs.ts';
import { z } from 'zod';
import { acceptedRun } from '../../src/producer/http/openapi.ts';
import { approvalView } from '../../src/shared/contract/inbox/approvals.ts';
import { progressEntry } from '../../src/producer/client/artifacts.ts';
import { costReport } from '../../src/shared/contract/report/costs.ts';
import { erasureAnswer } from '../../src/producer/client/erase/request.ts';
import { erasureReceipt } from '../../src/shared/contract/erasure/receipt.ts';
import { auditView } from '../../src/producer/client/audit/audit.ts';
import { seriesReport } from '../../src/shared/contract/report/series.ts';
import { flowReport } from '../../src/producer/client/flows/flow-report.ts';
import { flowView } from '../../src/producer/client/flows/flows.ts';
import { acceptedPins } from '../../src/producer/client/mcp-pins.ts';
import { agentDetail } from '../../src/shared/contract/agent/agent-detail.ts';
import { fleetView } from '../../src/shared/contract/report/fleet.ts';
import { agentView } from '../../src/shared/contract/agent/agent.ts';
import { fileView } from '../../src/shared/contract/files.ts';
import { eventSchema } from '../../src/shared/contract/event.ts';
import { serverPins } from '../../src/shared/contract/mcp-pins.ts';
import { batchId, batchQuote, batchStatus, batchView } from '../../src/shared/contract/batch.ts';
import { fileId } from '../../src/shared/contract/files.ts';
import { budgetView } from '../../src/shared/contract/money.ts';
import { runView } from '../../src/shared/contract/run.ts';
import { threadItem, threadView } from '../../src/shared/contract/thread/thread-items.ts';
import { threadEvent } from '../../src/shared/contract/thread/thread.ts';

/** What a command prints with `--json`: one document, or a document a line. */
export interface Printed {
  readonly as: 'document' | 'lines';
  readonly shape: z.ZodType;
  /** Where it is described, or what it is; absent: its fields are listed. */
  readonly is?: string;
  readonly note?: string;
}

const count = z.int().min(0);
const run: Printed = { as: 'document', shape: runView, is: 'a [Run](http.md#run)' };
const thread: Printed = { as: 'document', shape: threadView, is: 'a [Thread](http.md#thread)' };
const budget: Printed = { as: 'document', shape: budgetView, is: 'a [Budget](http.md#budget)' };
const agents: Printed = { as: 'document', shape: z.array(agentView), is: 'an array of [Agents](http.md#agent)' };
const decision: Printed = {
  as: 'document',
  shape: z.object({ run: runView, budget: budgetView.optional() }),
  is: 'an object: `run`, a [Run](http.md#run), and after a top-up `budget`, a [Budget](http.md#budget)',
};
const events: Printed = { as: 'lines', shape: eventSchema, is: 'an [event](events.md)' };
const started: Printed = {
  ...events,
  note: 'With `--detach` it is one document instead: an [AcceptedRun](http.md#acceptedrun).',
};

/** With `--detach`, of every command that starts a run. */
export const detached = acceptedRun;

const check = z.object({
  name: z.string(),
  level: z.enum(['ok', 'warn', 'fail']),
  text: z.string(),
  advice: z.string().optional(),
});

const batchSummary = z.object({
  batch: z.string().describe('Its name: that of `--name`, or of the file.'),
  id: batchId.optional().describe('Absent: the file has no lines.'),
  end: z.enum(['finished', 'cancelled', 'expired', 'failed', 'quoted', 'paused', 'interrupted', 'detached']),
  status: batchStatus.optional().describe('In the words of the API.'),
  total: count.describe('Lines of the file.'),
  finished: count.describe('Lines that have their result.'),
  failed: count.describe('The part of `finished` without an answer.'),
  costMicrocents: count,
  elapsedMs: count.optional().describe('From its beginning to its end; a batch that has not ended has none.'),
  quote: batchQuote.optional(),
  fileId: fileId.optional().describe('The file with the results.'),
  output: z.string().optional().describe('Where the results are on this machine.'),
});

const batch: Printed = { as: 'document', shape: batchView, is: 'a [Batch](http.md#batch)' };

/** By the words that call a command. Every command with `--json` is here. */
export const printedBy: Readonly<Record<string, Printed>> = {
  init: {
    as: 'document',
    shape: z.object({
      folder: z.string(),
      created: z.array(z.string()).describe('Files below it.'),
      leftAlone: z
        .array(z.object({ path: z.string(), note: z.string().optional() }))
        .describe('What was there already, and what is to be done about it.'),
    }),
  },
  run: started,
  'fan-out': started,
  evaluate: started,
  task: started,
  chat: {
    as: 'lines',
    shape: z.union([eventSchema, threadItem]),
    is: 'an [event](events.md)',
    note: 'With `--last` the first lines are messages of the thread: [ThreadItems](http.md#threaditem).',
  },
  batch: { as: 'document', shape: batchSummary },
  'batches list': { as: 'document', shape: z.array(batchView), is: 'an array of [Batches](http.md#batch)' },
  'batches get': batch,
  'batches pause': batch,
  'batches resume': batch,
  'batches cancel': batch,
  'batches redrive': batch,
  'batches download': {
    as: 'document',
    shape: z.object({ batch: batchId, fileId, output: z.string().describe('Where the file is now.') }),
  },
  tail: events,
  get: { ...run, note: 'With `--steps`: what `GET /v1/runs/{id}/steps` answers.' },
  cancel: {
    as: 'document',
    shape: z.union([runView, manyAnswer.omit({ cursor: true })]),
    is: 'a [Run](http.md#run)',
    note: 'Of runs by a filter: `{matched, done, failures}`.',
  },
  runs: {
    as: 'document',
    shape: z.union([z.array(runView), runCounts]),
    is: 'an array of [Runs](http.md#run)',
    note: 'With `--counts`: `{total, byStatus, complete}`.',
  },
  progress: { as: 'document', shape: z.array(progressEntry), is: 'an array of notes' },
  approvals: {
    as: 'document',
    shape: z.array(approvalView),
    is: 'an array of [Approvals](http.md#approval)',
    note: 'With `--follow` each is a line of its own.',
  },
  approve: decision,
  deny: decision,
  'budget get': budget,
  'budget set': budget,
  'budget top-up': budget,
  'mcp pins': { as: 'document', shape: z.array(serverPins), is: 'an array of [McpPins](http.md#mcppins)' },
  'mcp accept': {
    as: 'document',
    shape: acceptedPins,
    is: 'an object: `accepted`, the names of tools, and `pins`, a [McpPins](http.md#mcppins)',
  },
  top: { as: 'document', shape: seriesReport, is: 'a [SeriesReport](http.md#seriesreport)' },
  costs: { as: 'document', shape: costReport, is: 'a [CostReport](http.md#costreport)' },
  erase: {
    as: 'document',
    shape: z.object({ receipts: z.array(erasureReceipt), kept: erasureAnswer.shape.kept }),
    is: 'an object: `receipts`, [ErasureReceipts](http.md#erasurereceipt), and `kept`, what was left and why',
  },
  'receipt verify': {
    as: 'document',
    shape: z.array(z.object({ receiptId: z.string(), valid: z.boolean() })),
    is: 'an array: each receipt, and whether it is `valid`',
  },
  'audit list': { as: 'document', shape: z.array(auditView), is: 'an array of [AuditEntries](http.md#auditentry)' },
  'flows list': {
    as: 'document',
    shape: z.array(flowView),
    is: 'an array of [Flows](http.md#flow)',
    note: 'With `--follow` each is a line of its own.',
  },
  'flows report': { as: 'document', shape: flowReport, is: 'a [FlowReport](http.md#flowreport)' },
  'files list': { as: 'document', shape: z.array(fileView), is: 'an array of [Files](http.md#file)' },
  'files put': { as: 'document', shape: fileView, is: 'a [File](http.md#file)' },
  'files rm': { as: 'document', shape: z.object({ id: z.string(), deleted: z.literal(true) }) },
  'threads list': { as: 'document', shape: z.array(threadView), is: 'an array of [Threads](http.md#thread)' },
  'threads show': thread,
  'threads title': thread,
  'threads messages': {
    as: 'document',
    shape: z.array(threadItem),
    is: 'an array of [ThreadItems](http.md#threaditem)',
  },
  'threads events': {
    as: 'lines',
    shape: threadEvent,
    is: 'an event of a thread, as `GET /v1/threads/{id}/events` has it',
  },
  'threads delete': { as: 'document', shape: z.object({ threadId: z.string(), deleted: z.literal(true) }) },
  'threads purge': {
    as: 'document',
    shape: z.object({ removed: count, kept: z.array(z.string()).describe('Threads that runs use.') }),
  },
  agents,
  'agents check': agents,
  replay: {
    as: 'document',
    shape: z.strictObject({
      agent: z.string(),
      runId: z.string(),
      mode: z.enum(['recorded', 'live']),
      departures: z.array(
        z.strictObject({
          kind: z.string(),
          stepNumber: z.int().optional(),
          what: z.string(),
          recorded: z.string(),
          now: z.string(),
        }),
      ),
      recordedMicrocents: z.int(),
      costMicrocents: z.int(),
      notes: z.array(z.string()),
    }),
    is: 'an object: `departures`, the first of each [kind](../replay.md) of the run and of each run that works for it (`child`), `mode`, both costs in microcents, and `notes`',
  },
  'agents show': { as: 'document', shape: agentDetail, is: 'an [AgentDetail](http.md#agentdetail)' },
  'budget list': { as: 'document', shape: z.array(budgetView), is: 'an array of [Budgets](http.md#budget)' },
  fleet: { as: 'document', shape: fleetView, is: 'what [`GET /v1/fleet`](http.md) answers' },
  doctor: {
    as: 'document',
    shape: z.object({
      checks: z.array(check).describe('The lines that are printed without `--json`.'),
      diagnosis: diagnosisView.optional().describe('The facts behind them; absent when Redis cannot be reached.'),
    }),
  },
  redrive: {
    as: 'document',
    shape: z.object({
      redriven: z.array(z.string()).describe('Ids of runs that are queued again.'),
      refused: z.array(z.object({ runId: z.string(), code: z.string(), message: z.string() })),
      skipped: z
        .int()
        .describe('Runs that cannot continue, because only the archive has them. 0 for runs that are named.'),
    }),
  },
};
