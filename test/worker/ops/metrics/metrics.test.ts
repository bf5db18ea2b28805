import { expect, test } from 'vitest';
import { WorkerMetrics, type MetricSources } from '../../../../src/worker/ops/metrics/metrics.ts';

const breakers = () => new Map([['acme/big/model', 'open' as const]]);

const context = { agentId: 'support', kind: 'agent.turn' };
const usage = { input: 1, output: 1, cached: 0, cacheWrite: 0, total: 2, byModel: {} };

function workerMetrics(sources: Partial<MetricSources> = {}): WorkerMetrics {
  return new WorkerMetrics({
    active: () => 0,
    concurrency: 1,
    queues: ['runs'],
    breakers,
    redisUp: async () => true,
    eventLagMs: () => 0,
    known: { agents: ['support'], models: ['m', 'model', 'big/model', 'n', 'big', 'small'], tools: ['search'] },
    ...sources,
  });
}

async function scrape(metrics: WorkerMetrics, line: string): Promise<string | undefined> {
  return (await metrics.registry.metrics()).split('\n').find((text) => text.startsWith(line));
}

test('compactions are counted by what came of them', async () => {
  const metrics = workerMetrics();
  metrics.runs.compacted('support', 'failed');
  metrics.runs.compacted('support', 'failed');
  expect(await scrape(metrics, 'millrace_compactions_total{')).toBe(
    'millrace_compactions_total{agent="support",outcome="failed"} 2',
  );
});

test('locks of threads and the wait of events are gauges', async () => {
  const metrics = workerMetrics({ eventLagMs: () => 1_500 });
  for (const change of [1, 1, -1] as const) metrics.runs.threadLocks(change);
  expect(await scrape(metrics, 'millrace_thread_locks ')).toBe('millrace_thread_locks 1');
  expect(await scrape(metrics, 'millrace_event_lag_seconds ')).toBe('millrace_event_lag_seconds 1.5');
});

test('runs, attempts, tokens, cost and tools are counted from the events', async () => {
  const metrics = workerMetrics({ active: () => 3, concurrency: 50 });
  const observe = (event: Parameters<WorkerMetrics['observe']>[0]) => metrics.observe(event, context);
  observe({
    type: 'run.completed',
    status: 'completed',
    result: { text: 'x' },
    usage,
    costMicrocents: 5,
    durationMs: 1_500,
    steps: 1,
  });
  observe({
    type: 'run.failed',
    error: { code: 'provider_auth', message: 'x', retryable: false },
    usage,
    costMicrocents: 0,
    durationMs: 90_000,
  });
  observe({
    type: 'llm.call',
    model: 'm',
    provider: 'p',
    requestId: 'r',
    attemptNumber: 1,
    outcome: 'failed',
    tokensIn: 0,
    tokensOut: 0,
    latencyMs: 10,
    error: { kind: 'rate_limit', message: 'x' },
  });
  observe({
    type: 'cost.updated',
    model: 'm',
    inputTokens: 7,
    outputTokens: 3,
    costMicrocents: 42,
    cumulativeCostMicrocents: 42,
    priced: false,
    usageReported: true,
  });
  observe({
    type: 'tool.execute.end',
    toolCallId: 'c',
    toolName: 'lookup',
    success: true,
    outputSummary: '',
    durationMs: 5,
  });

  expect(await scrape(metrics, 'millrace_runs_total{agent="support",kind="agent.turn",status="completed"')).toMatch(
    / 1$/,
  );
  expect(await scrape(metrics, 'millrace_runs_total{agent="support",kind="agent.turn",status="failed"')).toMatch(/ 1$/);
  expect(await scrape(metrics, 'millrace_run_errors_total{agent="support",code="provider_auth"')).toMatch(/ 1$/);
  expect(await scrape(metrics, 'millrace_run_duration_seconds_sum{agent="support",status="failed"')).toMatch(/ 90$/);
  expect(
    await scrape(
      metrics,
      'millrace_llm_attempts_total{provider="p",model="m",outcome="failed",error_kind="rate_limit"',
    ),
  ).toMatch(/ 1$/);
  expect(await scrape(metrics, 'millrace_llm_tokens_total{model="m",type="input"')).toMatch(/ 7$/);
  expect(await scrape(metrics, 'millrace_llm_cost_microcents_total{model="m"')).toMatch(/ 42$/);
  expect(await scrape(metrics, 'millrace_llm_price_unknown_total{model="m"')).toMatch(/ 1$/);
  expect(await scrape(metrics, 'millrace_tool_calls_total{tool="lookup",outcome="ok"')).toMatch(/ 1$/);
  expect(await scrape(metrics, 'millrace_runs_active')).toMatch(/ 3$/);
  expect(await scrape(metrics, 'nodejs_eventloop_lag_p99_seconds')).toBeDefined();
});

test('starts show how long runs have waited, and recoveries are counted', async () => {
  const metrics = workerMetrics();
  metrics.observe({ type: 'run.started', kind: 'agent.turn', attempt: 1 }, { ...context, queueWaitMs: 1_500 });
  metrics.observe({ type: 'run.recovered', fromCheckpoint: 0 }, context);
  expect(await scrape(metrics, 'millrace_run_queue_wait_seconds_sum{agent="support"}')).toMatch(/ 1\.5$/);
  expect(await scrape(metrics, 'millrace_runs_recovered_total{agent="support"}')).toMatch(/ 1$/);
});

test('a tool name that a model made up does not become a label', async () => {
  const metrics = workerMetrics();
  const error = { kind: 'unknown_tool', message: 'x', hint: 'try_alternative' } as const;
  metrics.observe(
    { type: 'tool.execute.error', toolCallId: 'c', toolName: 'made_up', success: false, error, durationMs: 0 },
    context,
  );
  expect(await metrics.registry.metrics()).not.toContain('made_up');
});

test('waits, money, turns and breakers are counted', async () => {
  const metrics = workerMetrics();
  const about = { agentId: 'support', kind: 'agent.turn' };
  const budget = { spentMicrocents: 1, limitMicrocents: 2 };
  metrics.observe({ type: 'run.suspended', reason: 'budget', pending: [] }, about);
  metrics.observe({ type: 'run.started', kind: 'agent.turn', attempt: 2, resumed: true }, about);
  metrics.observe({ type: 'budget.paused', ...budget, gateId: 'batch:b', scope: 'batch', accountId: 'b' }, about);
  metrics.observe({ type: 'budget.warning', ...budget, thresholdPct: 50 }, about);
  metrics.models.money.reserved('support', 70);
  metrics.models.money.spent('support', 7);
  metrics.models.money.unconfirmed('support');
  metrics.models.rateLimiter.waited('key:model', 0.2);
  metrics.models.rateLimiter.parked('key:model');
  metrics.models.rateLimiter.woken('key:model', 3);
  metrics.models.rateLimiter.cooled('key:model');
  const text = await metrics.registry.metrics();
  for (const line of [
    'millrace_runs_suspended_total{agent="support",reason="budget"} 1',
    'millrace_runs_resumed_total{agent="support"} 1',
    'millrace_budget_paused_total{scope="batch"} 1',
    'millrace_budget_warnings_total{agent="support"} 1',
    'millrace_ledger_reserved_microcents_total{agent="support"} 70',
    'millrace_ledger_spent_microcents_total{agent="support"} 7',
    'millrace_ledger_unconfirmed_calls_total{agent="support"} 1',
    'millrace_rate_limiter_wait_seconds_count{model="model"} 1',
    'millrace_rate_limiter_parked_total{model="model"} 1',
    'millrace_rate_limiter_resumed_total{model="model"} 3',
    'millrace_rate_limiter_cooldowns_total{model="model"} 1',
    'millrace_breaker_state{provider="acme",model="big/model"} 2',
  ]) {
    expect(text).toContain(line);
  }
});

test('decisions of people and of rules are counted, and breakers of tools stand apart from those of models', async () => {
  const open = () =>
    new Map([
      ['tool:mcp:files/read#a', 'open' as const],
      ['tool:mcp:files/write#b', 'closed' as const],
      ['tool:pay#c', 'half_open' as const],
      ...breakers(),
    ]);
  const metrics = workerMetrics({ breakers: open });
  const classification = { trust: 'user-defined', sideEffectClass: 'money', sensitivity: 'public' };
  const call = { toolCallId: 'c', toolName: 'pay' };
  const observe = (event: Parameters<WorkerMetrics['observe']>[0]) => metrics.observe(event, context);
  observe({ type: 'tool.approval.requested', ...call, args: {}, mode: 'approval', requestedAt: '', classification });
  observe({ type: 'tool.approval.granted', ...call });
  observe({ type: 'tool.approval.denied', ...call, reason: 'expired' });
  observe({ type: 'tool.approval.denied', ...call, reason: 'too much' });
  observe({ type: 'policy.decision', subject: 'tool_call', action: 'deny', ruleId: 'r' });
  const finding = { rule: 'untrusted-value', argument: 'iban' } as const;
  observe({ type: 'dataflow.asked', ...call, rule: finding.rule, mode: 'confirm', findings: [finding] });
  for (const line of [
    'millrace_approvals_requested_total{tool="pay"} 1',
    'millrace_approvals_decided_total{tool="pay",decision="granted"} 1',
    'millrace_approvals_decided_total{tool="pay",decision="expired"} 1',
    'millrace_approvals_decided_total{tool="pay",decision="denied"} 1',
    'millrace_policy_decisions_total{subject="tool_call",action="deny"} 1',
    'millrace_dataflow_total{decision="asked",rule="untrusted-value"} 1',
    'millrace_tool_breaker_state{tool="mcp:files"} 2',
    'millrace_tool_breaker_state{tool="pay"} 1',
    'millrace_breaker_state{provider="acme",model="big/model"} 2',
  ])
    expect(await scrape(metrics, line)).toBe(line);
  expect(await scrape(metrics, 'millrace_breaker_state{provider="tool')).toBeUndefined();
});

test('what an alert watches is there at 0 before it happens for the first time', async () => {
  const known = { agents: ['support'], models: ['m'], tools: ['pay'] };
  const text = await workerMetrics({ queues: ['runs', 'bulk'], concurrency: 7, known }).registry.metrics();
  for (const line of [
    'millrace_runs_total{agent="support",kind="agent.turn",status="failed"} 0',
    'millrace_tool_outcome_unknown_total{tool="pay"} 0',
    'millrace_llm_cost_microcents_total{model="m"} 0',
    'millrace_llm_price_unknown_total{model="m"} 0',
    'millrace_rate_limiter_cooldowns_total{model="m"} 0',
    'millrace_budget_paused_total{scope="tenant"} 0',
    'millrace_dataflow_total{decision="blocked",rule="untrusted-to-sink"} 0',
    'millrace_postrun_jobs_failed_total{kind="title"} 0',
    'millrace_worker_concurrency{queue="bulk"} 7',
    'millrace_redis_up 1',
  ])
    expect(text).toContain(`${line}\n`);
});

test('the first run of a kind counts from 0, and one that never began has no duration', async () => {
  const metrics = workerMetrics();
  const about = { agentId: 'support', kind: 'node' };
  metrics.observe({ type: 'run.started', kind: 'node', attempt: 1 }, about);
  expect(await scrape(metrics, 'millrace_runs_total{agent="support",kind="node",status="cancelled"')).toMatch(/ 0$/);
  metrics.observe({ type: 'run.cancelled', drained: false, usage, costMicrocents: 0 }, about);
  expect(await scrape(metrics, 'millrace_runs_total{agent="support",kind="node",status="cancelled"')).toMatch(/ 1$/);
  expect(await scrape(metrics, 'millrace_run_duration_seconds_count')).toBeUndefined();
});

test('a model call that was skipped is counted, and has no duration', async () => {
  const metrics = workerMetrics();
  const call = { model: 'm', provider: 'p', requestId: 'r', attemptNumber: 1, tokensIn: 0, tokensOut: 0 };
  metrics.observe({ type: 'llm.call', ...call, outcome: 'skipped', latencyMs: 0 }, context);
  expect(await scrape(metrics, 'millrace_llm_attempts_total{')).toContain('outcome="skipped"');
  expect(await scrape(metrics, 'millrace_llm_attempt_seconds_count')).toBeUndefined();
});

test('names that are not configured share one label, however many there are', async () => {
  const open = new Map<string, 'open'>();
  const metrics = workerMetrics({ breakers: () => open });
  const count = async () => (await metrics.registry.metrics()).split('\n').length;
  const observe = (name: string) => {
    const call = { type: 'llm.call', provider: 'p', requestId: 'r', attemptNumber: 1, outcome: 'succeeded' } as const;
    metrics.observe({ ...call, model: name, tokensIn: 0, tokensOut: 0, latencyMs: 1 }, context);
    metrics.observe({ type: 'run.recovered', fromCheckpoint: 0 }, { agentId: name, kind: 'agent.turn' });
    const step = { previousModel: name, nextModel: name, stepNumber: 1, attempt: 1 };
    metrics.observe({ type: 'agent.model.fellback', from: name, to: name, ...step, reason: 'transient' }, context);
    const paid = { inputTokens: 1, outputTokens: 1, costMicrocents: 1, cumulativeCostMicrocents: 1 };
    metrics.observe({ type: 'cost.updated', model: name, ...paid, priced: false, usageReported: true }, context);
    const { rateLimiter, money } = metrics.models;
    for (const count of [money.reserved, money.spent]) count(name, 1);
    money.unconfirmed(name);
    metrics.runs.compacted(name, 'failed');
    for (const count of [rateLimiter.parked, rateLimiter.cooled]) count(`key:${name}`);
    rateLimiter.waited(`key:${name}`, 1);
    rateLimiter.woken(`key:${name}`, 1);
    open.set(`acme/${name}`, 'open');
  };
  observe('made-up');
  const before = await count();
  for (let i = 0; i < 2_000; i++) observe(`made-up-${i}`);
  expect(await count()).toBe(before);
  expect(await scrape(metrics, 'millrace_runs_recovered_total{agent="other"}')).toMatch(/ 2001$/);
});

test('tools that servers invent without end share one label after the first five hundred', async () => {
  const metrics = workerMetrics();
  for (let i = 0; i < 1_000; i++)
    metrics.observe({ type: 'tool.outcome_unknown', toolCallId: 'c', toolName: `t${i}`, key: 'k' }, context);
  expect((await metrics.registry.metrics()).match(/^millrace_tool_outcome_unknown_total/gm)).toHaveLength(502);
});

test('tools that providers run share one label', async () => {
  const metrics = workerMetrics();
  for (let i = 0; i < 3; i++)
    metrics.observe(
      {
        type: 'tool.execute.end',
        toolCallId: 'c',
        toolName: `t${i}`,
        success: true,
        outputSummary: 'x',
        durationMs: 1,
        relayed: true,
      },
      context,
    );
  expect(await scrape(metrics, 'millrace_tool_calls_total{')).toBe(
    'millrace_tool_calls_total{tool="relayed",outcome="ok"} 3',
  );
});
