import type { RunExport } from '../../shared/contract/archive/run-export.ts';
import type { RunSteps } from '../../shared/contract/archive/run-steps.ts';
import type { ProgressNote, ProgressQuery } from '../../shared/contract/artifacts.ts';
import type { AgentView } from '../../shared/contract/agent/agent.ts';
import type { AgentDetail } from '../../shared/contract/agent/agent-detail.ts';
import type { FleetView } from '../../shared/contract/report/fleet.ts';
import type { CancelRequest, DecisionInput } from '../../shared/contract/control.ts';
import type { DialectEvent } from '../../shared/dialects/dialect.ts';
import { createProjector, eachProjected, readFrom, projectShown } from '../../shared/dialects/project.ts';
import type { ErasureKeyView } from '../../shared/contract/erasure/receipt.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { ProviderReport } from '../../shared/contract/provider-report.ts';
import type { RunOutcomeView, RunRequestInput, RunView } from '../../shared/contract/run.ts';
import type { SeriesReport } from '../../shared/contract/report/series.ts';
import type { WriteProblem } from '../../shared/state/write-probe.ts';
import { defined } from '../../shared/base/collections.ts';
import type { Rights } from './accept/validate.ts';
import type { AuditPage, AuditQuery, AuditView } from './audit/audit.ts';
import type { ApprovalsPage, ApprovalsQuery } from './approvals.ts';
import type { MediaFile, ProgressEntry, ProgressInput, ProgressWriting } from './artifacts.ts';
import type { Batches } from './batches/batches.ts';
import type { Budgets } from './budgets.ts';
import type { ChatOptions, ChatTurnRequest } from './chat/open-turn.ts';
import { ChatTurn } from './chat/chat-turn.ts';
import type { CostReport } from '../../shared/contract/report/costs.ts';
import type { CostQuery } from './costs.ts';
import type { DecideOptions, DecisionAnswer } from './decide.ts';
import type { JudgedDiagnosis } from './diagnose/checks.ts';
import type { BulkAnswer, QueueState } from './enqueue.ts';
import type { EraseRequest, ErasureAnswer } from './erase/request.ts';
import type { Files } from './files/files.ts';
import type { FlowReport, FlowReportQuery } from './flows/flow-report.ts';
import type { FlowsPage, FlowsQuery } from './flows/flows.ts';
import type { ListQuery, RunsPage } from './list-runs.ts';
import type { McpPins } from './mcp-pins.ts';
import type { Identity, Operations } from './operations.ts';
import type {
  DialectEventsOptions,
  EvaluateRun,
  EventsOptions,
  FanOutRun,
  ResultOptions,
  TaskRun,
  TaskRunOptions,
} from './options.ts';
import type { CancelManyRequest, ManyAnswer, RunCounts } from './many-runs.ts';
import type { RunFilter } from './run-filter.ts';
import type { RedriveAnswer, RedriveRequest } from './redrive.ts';
import { RunHandle } from './run-handle.ts';
import type { SeriesQuery } from './series/series.ts';
import type { Threads } from './threads.ts';
import type { WireStore } from './wire/wire-store.ts';

/**
 * The methods of `Millrace`, over Redis as over HTTP: every one throws `RunError` with a code of the error table, and a run of
 * another tenant is `run_not_found`.
 */
export class MillraceClient implements AsyncDisposable {
  /** Undefined over HTTP, where the API key names it: see {@link whoami}. */
  readonly tenant: string | undefined;
  /** Files of requests that run in the background. */
  readonly batches: Batches;
  /** What the tenant, its batches and its runs may spend. */
  readonly budgets: Budgets;
  /** What batches read and write, and what runs are given. */
  readonly files: Files;
  /** What the tools of MCP servers were at their first use. */
  readonly mcpPins: McpPins;
  /** The conversations of the tenant. */
  readonly threads: Threads;
  readonly #operations: Operations;

  /** For the process that serves OpenAI's API. Undefined for a client over HTTP. */
  static wireOf(mill: MillraceClient): WireStore | undefined {
    return mill.#operations.wire;
  }

  constructor(operations: Operations) {
    this.#operations = operations;
    this.tenant = operations.tenant;
    this.batches = operations.batches;
    this.budgets = operations.budgets;
    this.files = operations.files;
    this.mcpPins = operations.mcpPins;
    this.threads = operations.threads;
  }

  /** On whose behalf this client asks. Over HTTP: the tenant and the rights of the API key. Throws `unauthorized`. */
  async whoami(): Promise<Identity> {
    return await this.#operations.whoami();
  }

  /**
   * The same client for another tenant. Shares the connections; only the original closes them. With the rights of a
   * `caller` it cannot raise what operators and authors have set: `forbidden` for `raise`, and for money of the tenant. The
   * runs that it accepts carry `requestId` into the log lines of their workers; what it does is in the audit log as done `by`. Throws `validation` over HTTP, where the API key
   * names the tenant.
   */
  forTenant(tenant: string, rights?: Rights, requestId?: string, by?: string): MillraceClient {
    return new MillraceClient(this.#operations.forTenant(tenant, rights, requestId, by));
  }

  /**
   * Accepts a run: when this resolves, its record and its job are in Redis. With an `executionId` that was used before,
   * the same body answers with that run and `attached: true`, another body throws `idempotency_conflict`. After
   * `queue_unavailable` it is unknown whether the run exists; repeat with the same `executionId`.
   *
   * Throws `validation`, `invalid_id`, `too_deep`, `payload_too_large`, `secret_in_payload`, `model_not_allowed`,
   * `unknown_queue`, `queue_full` (with `details.retryAfterS`), `idempotency_conflict`, `queue_unavailable`.
   */
  async enqueue(request: RunRequestInput, options: { readonly signal?: AbortSignal } = {}): Promise<RunHandle> {
    return new RunHandle(this, await this.#operations.accept(request, options.signal));
  }

  /**
   * Accepts up to 10,000 runs; one answer per request, in order. A refused request does not hinder the others. Throws
   * only `validation` for more than 10,000, and `queue_unavailable` when nothing could be accepted.
   */
  async enqueueMany(requests: readonly unknown[]): Promise<readonly BulkAnswer[]> {
    return await this.#operations.acceptMany(requests);
  }

  /**
   * Asks several agents at the same time and makes one answer of theirs. The children are runs of their own, on whichever
   * worker takes them; the fan-out waits for them without a worker. Throws as {@link enqueue}.
   *
   * @example
   * const run = await mill.fanOut({ input: 'Is 7 prime?', children: [{ agent: 'euler' }, { agent: 'gauss' }] });
   * const { text } = await run.result();
   */
  async fanOut(asked: FanOutRun, options: { readonly signal?: AbortSignal } = {}): Promise<RunHandle> {
    const { children, mergeStrategy, perBudget, maxConcurrentChildren, ...rest } = asked;
    const fanOut = { children, mergeStrategy, perBudget, maxConcurrentChildren };
    // Without children there is no agent either, and the request says so.
    return await this.enqueue({ agent: children[0]?.agent ?? '', input: '', ...rest, fanOut }, options);
  }

  /**
   * Has an agent write an answer, and again with a critique, until it is good enough. Generator and judge are runs of their
   * own, as with {@link fanOut}. Throws as {@link enqueue}.
   *
   * @example
   * const evaluator = { judge: 'editor', rubric: 'Short, and nothing that is not so.' };
   * const run = await mill.evaluate({ generator: 'writer', evaluator, maxIterations: 4, input: 'What is a tide?' });
   */
  async evaluate(asked: EvaluateRun, options: { readonly signal?: AbortSignal } = {}): Promise<RunHandle> {
    const { generator, evaluator, maxIterations, select, ...rest } = asked;
    const evaluate = { generator, evaluator, maxIterations, select };
    return await this.enqueue({ agent: generator, ...rest, evaluate }, options);
  }

  /**
   * Runs a task over an adapter that workers have by this name, step by step, on any free worker. Where it asks, the run
   * waits for an answer ({@link RunHandle.answer}). Throws as {@link enqueue}.
   *
   * @example
   * const run = await mill.task({ adapter: 'inbox', input: { folder: 'new' }, limits: { maxSteps: 20 } });
   * const { text, result } = await run.result();
   */
  async task(task: TaskRun, { signal, ...rest }: TaskRunOptions = {}): Promise<RunHandle> {
    return await this.enqueue({ agent: task.adapter, input: '', ...rest, taskRun: task }, signal ? { signal } : {});
  }

  /**
   * Submits one turn of a chat: a run whose execution id is `project:session:turn`, so that the same turn is never
   * answered twice however often it is submitted. Throws as {@link enqueue}.
   *
   * @example
   * const turn = await mill.chat({ agent: 'support', message: 'Where is order 7?', sessionId: 's-1', turnIndex: 0 });
   * for await (const line of turn.events()) response.write(`${JSON.stringify(line)}\n`);
   */
  async chat(request: ChatTurnRequest, options: ChatOptions = {}): Promise<ChatTurn> {
    return new ChatTurn(this, await this.#operations.submitTurn(request, options));
  }

  /**
   * A turn that was submitted before, by this process or another. Throws `execution_not_found` when nothing is known of
   * it any more, and `invalid_id`.
   */
  async chatTurn(executionId: string): Promise<ChatTurn> {
    return new ChatTurn(this, await this.#operations.findTurn(executionId));
  }

  /** A handle on a run that exists already. Asks nothing; a wrong id shows at the first call. */
  run(runId: string): RunHandle {
    return new RunHandle(this, { runId });
  }

  /** The present state; of one that has ended, also from the archive. Throws `run_not_found`, `gone` (past its time), `invalid_id`. */
  async get(runId: string): Promise<RunView> {
    return await this.#operations.get(runId);
  }

  /**
   * What the run did, step by step: what each model was asked and answered, its calls with arguments and results, attempts, costs
   * and times; and where the run was, what it waited for and who decided. While it works, and from the archive after its end. Throws
   * `run_not_found`, `gone` (past its time), `invalid_id`.
   *
   * @example
   * const { steps } = await mill.steps(runId);
   * const failed = steps.flatMap(({ calls }) => calls).filter(({ error }) => error);
   */
  async steps(runId: string): Promise<RunSteps> {
    return await this.#operations.steps(runId);
  }

  /**
   * The run as one document, with the definition of its agent and the runs that worked for it: what `millrace replay` reads. Throws as
   * {@link steps}.
   */
  async export(runId: string): Promise<RunExport> {
    return await this.#operations.export(runId);
  }

  /**
   * The id of the run whose id begins so, for people who type it: at least four characters, in any case. Every other method
   * takes whole ids. Throws `run_not_found`, `invalid_id`, or `validation` when several runs fit; its details list them.
   */
  async findRunId(beginning: string): Promise<string> {
    return await this.#operations.findRunId(beginning);
  }

  /**
   * Runs, newest first. One call looks at no more than 2,000 runs: a page may have fewer than `limit`, even none, and
   * still have a `cursor`. No cursor means the end. Throws `validation` for a cursor or limit that makes no sense.
   */
  async list(query: ListQuery = {}): Promise<RunsPage> {
    return await this.#operations.list(query);
  }

  /**
   * How many runs a filter fits, by status. Looks at the newest 200,000 runs of the tenant, and says when there are more. Throws
   * `validation`.
   *
   * @example
   * const { byStatus } = await mill.count({ batch: 'nightly', metadata: { shop: 'north' } });
   */
  async count(filter: RunFilter = {}): Promise<RunCounts> {
    return await this.#operations.count(filter);
  }

  /**
   * Resolves when the run has ended, or with its state after `waitMs`. A run that failed does not throw. Throws
   * `run_not_found`, `invalid_id`, or the signal's reason.
   */
  async result(runId: string, options: ResultOptions = {}): Promise<RunOutcomeView> {
    return await this.#operations.result(runId, options);
  }

  /**
   * Every event after number `after`, in order, without gap or repeat, first from the log and then live; ends after the
   * terminal event. Survives reconnects. All local subscribers of a run get the same event objects: do not change them.
   * With a `dialect` they come in the format of another system; a dialect with a state is read from the first event on,
   * so that a trimmed log cannot be projected to it. With the profile `interactive` a run in the background shows only
   * what its agent sends to people, and its iteration ends without a terminal event.
   *
   * Throws on the first step `run_not_found`, `invalid_id`, `validation` (`after`), `execution_not_found` (the log is
   * past its retention), and at any step `replay_truncated` (`details.firstSequence`) or `queue_unavailable` (Redis away
   * for longer than a minute).
   */
  events(runId: string, options?: EventsOptions & { readonly dialect?: undefined }): AsyncIterable<RunEvent>;
  events(runId: string, options: DialectEventsOptions): AsyncIterable<DialectEvent>;
  events(
    runId: string,
    options: EventsOptions & { readonly dialect?: DialectEventsOptions['dialect'] | undefined } = {},
  ): AsyncIterable<RunEvent | DialectEvent> {
    const { dialect, after = 0, profile = 'full', signal, whole = dialect !== undefined } = options;
    const from = dialect ? readFrom(dialect, after) : after;
    const events = this.#operations.events(runId, { after: from, signal, whole });
    if (!dialect && profile === 'full') return events;
    if (!dialect)
      return eachProjected(
        events,
        projectShown(profile, (event) => [event]),
      );
    const projected = (tenant: string) =>
      eachProjected(events, projectShown(profile, createProjector(dialect, { tenant }, after)));
    const { tenant } = this;
    // A dialect names the tenant, which is asked for where it is not known.
    return tenant === undefined ? later(async () => projected((await this.whoami()).tenant)) : projected(tenant);
  }

  /** All events of the tenant's runs from now on, without text deltas. Live only: what is missed is not repeated. */
  firehose(options: { readonly signal?: AbortSignal } = {}): AsyncIterable<RunEvent> {
    return this.#operations.firehose(options.signal);
  }

  /**
   * Asks a run to stop and answers with its state. A run that waits ends at once; one that works soon after
   * (`cancelling`). What waits for people is denied; with `onPendingApprovals: 'hold'` a run that waits for people goes on
   * waiting and can still be decided about, with `'fail'` it fails with `run_aborted`. Asking again changes nothing, except that a request without `drain` overrides one with it. Throws
   * `already_terminal`, also where only the archive has the run, `run_not_found`, `gone`, `invalid_id`, `validation`.
   */
  async cancel(runId: string, request: Partial<CancelRequest> = {}): Promise<RunView> {
    return await this.#operations.cancel(runId, request);
  }

  /**
   * Cancels the open runs that a filter fits, newest first: at most `limit`, default 1,000. A `cursor` in the answer says that
   * there may be others; a call with it goes on there. Without a filter `all: true` is needed. Throws `validation`.
   *
   * @example
   * const { matched, done, cursor } = await mill.cancelMany({ batch: 'nightly', reason: 'wrong file' });
   */
  async cancelMany(request: CancelManyRequest): Promise<ManyAnswer> {
    return await this.#operations.cancelMany(request);
  }

  /**
   * Decides about what a run waits for: calls (`{ approvals: [{ toolCallId, granted, reason?, updatedArgs? }] }`), questions
   * and deferred calls (`{ answers: [{ toolCallId, answer }] }`), and money (`{ budget }`). All of it takes effect, or nothing.
   * The run goes on as soon as one of its calls is decided; the others stay pending. A granted call runs once, with
   * `updatedArgs` instead of the model's arguments when there are any. A repeated decision is accepted and changes
   * nothing.
   *
   * Money: `{ budget: 'approve' }` lets the step that waits pass the caps, `{ budget: 'reject' }` fails the run with
   * `budget_exceeded`, `{ budget: { topUpUsd: 5 } }` adds money to the account that it waits for; the run goes on by itself
   * once that is enough.
   *
   * Throws `approval_not_pending` (the run does not wait for this, or another person decided otherwise), `approval_expired`,
   * `already_terminal`, `run_not_found`, `gone`, `invalid_id`, `secret_in_payload` (a key of `updatedArgs`), `validation`.
   *
   * @example
   * await mill.decide(runId, { approvals: [{ toolCallId: 'call_1', granted: true }] }, { by: 'kim' });
   */
  async decide(runId: string, decision: DecisionInput, options: DecideOptions = {}): Promise<DecisionAnswer> {
    return await this.#operations.decide(runId, decision, options);
  }

  /**
   * What runs of the tenant wait for people to decide, newest first unless `order` is `oldest`: calls, questions, calls whose outcome is unknown, and
   * money. One call looks at no more than 2,000 runs; no cursor means the end. Throws `validation` for a query that makes no
   * sense.
   */
  async approvals(query: ApprovalsQuery = {}): Promise<ApprovalsPage> {
    return await this.#operations.approvals(query);
  }

  /**
   * What guards found in runs of the tenant, newest first: calls that the data-flow policy flagged, asked about, blocked or let
   * through, and leaks between agents. Names only, never a value. One call looks at no more than 2,000 entries: a page may
   * have fewer than `limit`, even none, and still have a `cursor`. No cursor means the end. `newest`, as `after` of a later call, asks
   * for what has come since. Throws `validation` for a query that makes no sense.
   *
   * @example
   * const { flows } = await mill.flows({ decision: 'blocked', since: '24h' });
   */
  async flows(query: FlowsQuery = {}): Promise<FlowsPage> {
    return await this.#operations.flows(query);
  }

  /**
   * The same counted by tool and by rule, since a time of the last 30 days (default: 7 days ago). `flagged` is what `enforce`
   * would have stopped. Throws `validation` for a time that makes no sense.
   *
   * @example
   * const { tools, totals } = await mill.flowReport({ since: '7d' });
   */
  async flowReport(query: FlowReportQuery = {}): Promise<FlowReport> {
    return await this.#operations.flowReport(query);
  }

  /**
   * Erases a run with its children, a thread with its runs, or the runs with some metadata: records, journals, events, archive, results,
   * files, lines of batches. Answers a signed receipt ({@link verifyReceipt}); while there is a `cursor` ask again with it. Needs
   * the rights of an operator (`forbidden`). Throws `concurrent_run` for what has not ended unless `cancel` is given, `run_not_found`,
   * `gone` (past its time, or erased before), `not_found`, `validation`.
   *
   * @example
   * let cursor: string | undefined;
   * do {
   *   const answer = await mill.erase({ metadata: { user: '42' }, threads: true, ...(cursor && { cursor }) });
   *   file.write(`${JSON.stringify(answer.receipt)}\n`);
   *   cursor = answer.cursor;
   * } while (cursor !== undefined);
   */
  async erase(request: EraseRequest): Promise<ErasureAnswer> {
    return await this.#operations.erase(request);
  }

  /** The public half of the key that receipts are signed with. */
  async erasureKey(): Promise<ErasureKeyView> {
    return await this.#operations.erasureKey();
  }

  /**
   * A page of the audit log of the tenant: what people decided, what rules denied, what guards found, changes of budgets and keys,
   * pauses and erasures. Needs the rights of an operator (`forbidden`), over HTTP the scope `admin`. Throws `validation`.
   */
  async audit(query: AuditQuery = {}): Promise<AuditPage> {
    return await this.#operations.audit(query);
  }

  /**
   * All entries of the audit log after one, the oldest first, as far as they are there now. Throws as {@link audit}.
   *
   * @example
   * for await (const entry of mill.auditEntries()) console.log(JSON.stringify(entry));
   */
  async *auditEntries(query: Omit<AuditQuery, 'order' | 'limit'> = {}): AsyncGenerator<AuditView, void, void> {
    let { after } = query;
    for (;;) {
      const { entries, next } = await this.audit(defined({ ...query, after, order: 'oldest', limit: 500 }));
      yield* entries;
      if (next === undefined) return;
      after = next;
    }
  }

  /**
   * What the model calls of the tenant cost, by day (UTC), agent and model, from counters that outlive the runs. Throws
   * `validation` for days that make no sense, or more than 400 of them.
   */
  async costs(query: CostQuery = {}): Promise<CostReport> {
    return await this.#operations.costs(query);
  }

  /**
   * What the runs of the tenant did over time, for charts: how many began and ended, their errors, waits, tokens, cost and calls. Steps
   * of 10 seconds go back an hour, those of 10 minutes a week; what a run used is counted when it ends. Producers keep these
   * counters: without one they stand still. Throws `validation` for times and steps that there are no counters for.
   *
   * @example
   * const { points } = await mill.series({ from: '7d', step: 3_600 });
   */
  async series(query: SeriesQuery = {}): Promise<SeriesReport> {
    return await this.#operations.series(query);
  }

  /**
   * The bytes behind a handle `media://sha256-…` of a result. Throws `invalid_id` for what is no handle and `not_found`
   * for files of others, and for expired ones.
   */
  async media(handle: string): Promise<MediaFile> {
    return await this.#operations.media(handle);
  }

  /**
   * Notes that agents left in a run, by number and then by role; they outlive the run. Throws `run_not_found`,
   * `invalid_id`, `validation`.
   */
  async progress(runId: string, query: ProgressQuery = {}): Promise<readonly ProgressEntry[]> {
    return await this.#operations.progress(runId, query);
  }

  /**
   * Leaves a note in a run for its agents (`progress_read`), other programs and people. It is numbered, never changed, and has no
   * event. The same `idempotencyKey` again writes nothing and answers the note that there is. Throws `run_not_found`,
   * `invalid_id`, `validation`, and `progress_write_failed`: a number that is taken, or a store that failed.
   *
   * @example
   * await mill.writeProgress(runId, { text: 'The export is at s3://exports/7.', role: 'exporter' });
   */
  async writeProgress(runId: string, note: ProgressInput, options: ProgressWriting = {}): Promise<ProgressNote> {
    return await this.#operations.writeProgress(runId, note, options);
  }

  /** The agents that workers or producers announced, by id. */
  async agents(): Promise<readonly AgentView[]> {
    return await this.#operations.agents();
  }

  /**
   * One of them with all that is data of its definition: instructions, models, limits, and its tools with their schemas. An agent that
   * only a producer has announced has no more than `agents` says. Throws `not_found`.
   *
   * @example
   * const { toolDetails = [] } = await mill.agent('support');
   */
  async agent(id: string): Promise<AgentDetail> {
    return await this.#operations.agent(id);
  }

  /**
   * Announces agents, so that `enqueue` knows their names. Workers do it at start. Throws `validation` over HTTP: no API key has
   * this right.
   */
  async registerAgents(agents: readonly AgentView[]): Promise<void> {
    await this.#operations.registerAgents(agents);
  }

  /**
   * Takes agents back that no worker serves any more; those that one does serve come back within a minute. Throws `validation` over
   * HTTP.
   */
  async forgetAgents(ids: readonly string[]): Promise<void> {
    await this.#operations.forgetAgents(ids);
  }

  /** Jobs by queue and state, and the workers that serve it, for every queue that exists. */
  async queueDepths(): Promise<Readonly<Record<string, QueueState>>> {
    return await this.#operations.queueDepths();
  }

  /**
   * The model providers that live workers report, by id: whether they have a key, whether they answer, their last error. Of
   * one that several workers have, the report of a worker that has trouble with it.
   */
  async providers(): Promise<readonly ProviderReport[]> {
    return await this.#operations.providers();
  }

  /**
   * Redrives failed runs of this tenant, one or those that a filter fits: the same run continues from its journal in a new job. Its
   * event numbers go on; its log begins anew.
   */
  async redrive(request: RedriveRequest = {}): Promise<RedriveAnswer> {
    return await this.#operations.redrive(request);
  }

  /**
   * What there is to do in the fleet, who does it, and what holds it up: queues, workers with the runs of this tenant on them, model
   * providers, what of their limits is in use, and breakers.
   */
  async fleet(): Promise<FleetView> {
    return await this.#operations.fleet();
  }

  /** Facts about Redis, queues, workers and stuck runs, for `doctor` and `/readyz`, and in `checks` what `doctor` says about them. */
  async diagnose(): Promise<JudgedDiagnosis> {
    return await this.#operations.diagnose();
  }

  /**
   * Why Redis takes no writes now, and what to do; undefined while it does. One small write to each master, shared by
   * all who ask within a second. Never throws.
   */
  async writeProblem(): Promise<WriteProblem | undefined> {
    return await this.#operations.writeProblem();
  }

  /** Ends all iterations and closes the connections. Does nothing on a client from `forTenant`. */
  async close(): Promise<void> {
    await this.#operations.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function* later<T>(begin: () => Promise<AsyncIterable<T>>): AsyncGenerator<T, void, undefined> {
  yield* await begin();
}
