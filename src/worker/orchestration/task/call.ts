import { z } from 'zod';
import { systemClock } from '../../../shared/base/clock.ts';
import { asRunError, assertNever, errorCode, RunError } from '../../../shared/base/errors.ts';
import { deepFreeze, type Json } from '../../../shared/base/json-value.ts';
import { cutText, Redactor } from '../../../shared/base/redact.ts';
import { within } from '../../../shared/base/deadline.ts';
import type { TaskContext } from '../../agents/adapter.ts';
import { addCharge, taskCharge, type TaskCharge, type TaskHost } from './host.ts';
import type { EventBody } from '../../../shared/contract/event.ts';

const maxMessageBytes = 2_048;

const failure = z.strictObject({
  code: errorCode,
  message: z.string(),
  retryable: z.boolean(),
  /** `late`: no answer in time; `defect`: an answer that is of no use, whatever was done. */
  kind: z.enum(['threw', 'late', 'defect']),
});
export type ActionFailure = z.infer<typeof failure>;

const reply = z.discriminatedUnion('ok', [
  z.strictObject({ ok: z.literal(true), value: z.unknown(), charges: z.array(taskCharge) }),
  z.strictObject({ ok: z.literal(false), failure, charges: z.array(taskCharge) }),
]);
export type CallReply = z.infer<typeof reply>;

export interface AdapterCall {
  readonly name: string;
  readonly work: (tools: Pick<TaskContext, 'signal' | 'charge'>) => unknown;
  /** Checks the answer and makes JSON of it. Throws `validation`. */
  readonly read: (answer: unknown) => Json;
  readonly timeoutMs: number;
}

/**
 * Makes a call as a step of the host. Whatever the adapter does becomes an answer: a throw, an answer that is not JSON, and
 * `run_timeout` when it takes longer. Throws `cancelled` after an abort, and what the host throws.
 */
export async function callAdapter(call: AdapterCall, host: TaskHost): Promise<CallReply> {
  const answer = await host.step(
    call.name,
    async (onCharge) => (await perform(call, host.signal, onCharge)) as unknown as Json,
  );
  const read = reply.safeParse(answer);
  if (!read.success)
    throw new RunError('run_state_malformed', `step ${call.name} of the task has no answer that can be read`);
  return deepFreeze(read.data);
}

async function perform(
  { name, work, read, timeoutMs }: AdapterCall,
  signal: AbortSignal,
  onCharge: (charge: TaskCharge) => void = () => {},
): Promise<CallReply> {
  const added: TaskCharge[] = [];
  const charge = (event: EventBody) => addCharge(added, event, onCharge);
  const settled = await within(timeoutMs, (inner) => work({ signal: inner, charge }), systemClock, signal);
  // What is added later is in no answer any more.
  const charges = [...added];
  const failed = (error: unknown, kind: ActionFailure['kind']): CallReply => {
    return { ok: false, failure: { ...failureOf(error), kind }, charges };
  };
  switch (settled.kind) {
    case 'value':
      try {
        return { ok: true, value: read(settled.value), charges };
      } catch (error) {
        return failed(error, 'defect');
      }
    case 'threw':
      if (signal.aborted) throw cancelled(name, signal);
      return failed(settled.error, 'threw');
    case 'timeout':
      return failed(new RunError('run_timeout', `${name} did not answer before the time of the task was up`), 'late');
    case 'aborted':
      throw cancelled(name, signal);
    default:
      return assertNever(settled);
  }
}

function cancelled(name: string, { reason }: AbortSignal): RunError {
  return new RunError('cancelled', `the task was cancelled in ${name}`, { cause: reason });
}

function failureOf(error: unknown): Omit<ActionFailure, 'kind'> {
  const { code, message, retryable } = asRunError(error);
  return { code, message: new Redactor().text(cutText(message, maxMessageBytes)), retryable };
}
