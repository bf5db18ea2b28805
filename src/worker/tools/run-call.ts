import type { Batch, Ending } from './batch.ts';
import type { ReadyCall } from './prepare.ts';
import { resultOf, shownData } from './result.ts';
import { reconcile } from './reconcile.ts';
import type { ToolContext } from './tool.ts';
import { errorResult, faultOf } from './tool-error.ts';
import { within, type Settled } from './within.ts';

const maxRetries = 3;
const retryBaseMs = 250;

/** Runs a call. A tool that says it is rate limited is tried again, if a repeat cannot do harm. Never rejects. */
export async function runCall(ready: ReadyCall, batch: Batch): Promise<Ending> {
  const { tool } = ready;
  for (let retry = 0; ; retry++) {
    const settled = await execute(ready, batch);
    const again = settled.kind === 'threw' && faultOf(settled.error).kind === 'rate_limited' && tool.effect !== 'once';
    if (!again || retry === maxRetries) return await endingOf(settled, ready, batch);
    await batch.host.clock.sleep(retryBaseMs * 2 ** retry, batch.signal).catch(() => {});
    if (batch.signal.aborted) return { kind: 'aborted' };
  }
}

async function execute({ call, tool, args }: ReadyCall, batch: Batch): Promise<Settled> {
  const { host, context } = batch;
  let open = true;
  // A call that was abandoned may go on talking; nobody listens any more.
  const tell = (type: 'tool.execute.progress' | 'tool.execute.partial') => (data: unknown) => {
    if (open) host.emit({ type, toolCallId: call.id, data: shownData(data, host.redactor) });
  };
  const given: Omit<ToolContext, 'signal'> = {
    runId: context.runId,
    toolCallId: call.id,
    idempotencyKey: context.keyFor(host.step, call.index),
    progress: tell('tool.execute.progress'),
    partial: tell('tool.execute.partial'),
  };
  const settled = await within(
    tool.timeoutMs,
    (signal) => tool.execute(args, { ...given, signal }),
    host.clock,
    batch.signal,
  );
  open = false;
  return settled;
}

async function endingOf(settled: Settled, ready: ReadyCall, batch: Batch): Promise<Ending> {
  const { tool } = ready;
  if (settled.kind === 'aborted') return settled;
  if (settled.kind === 'value') return { kind: 'result', result: resultOf(tool, settled.value) };
  if (settled.kind === 'threw') {
    const fault = faultOf(settled.error);
    const message = batch.host.redactor.text(fault.message);
    return { kind: 'result', result: errorResult({ kind: fault.kind, message }, tool.name) };
  }
  const timedOut: Ending = {
    kind: 'result',
    result: errorResult({ kind: 'timeout', message: `it did not answer within ${tool.timeoutMs} ms` }, tool.name),
  };
  if (tool.effect !== 'once') return timedOut;
  // Nobody knows what a call that did not answer has done outside.
  const found = await reconcile(ready, batch);
  return found.kind === 'not_done' ? timedOut : found;
}
