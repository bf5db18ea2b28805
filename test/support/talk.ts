import { RunError, type Millrace, type RunRequestInput } from '../../src/producer/index.ts';
import { call } from './http.ts';

/** A message as its sender knows it. */
export interface Sent {
  readonly thread: string;
  readonly onBusy: NonNullable<RunRequestInput['onBusy']>;
  readonly executionId: string;
  readonly input: string;
  /** Milliseconds since the epoch. */
  readonly triedAt: number;
  readonly answeredAt: number;
  /** The run that answers it. Absent: it was refused. */
  readonly runId?: string;
}

/** Takes a message, and answers the run, or the code with which it was refused. */
export type Door = (request: RunRequestInput) => Promise<{ readonly runId: string } | { readonly refused: string }>;

/** The client as a door. */
export function clientDoor(mill: Millrace): Door {
  return async (request) => {
    try {
      const { runId } = await mill.enqueue(request);
      return { runId };
    } catch (error) {
      if (error instanceof RunError) return { refused: error.code };
      throw error;
    }
  };
}

/** An HTTP producer as a door. */
export function httpDoor(url: string): Door {
  return async (request) => {
    try {
      const { status, body } = await call('POST', `${url}/v1/runs`, request);
      return status === 202 ? { runId: body.runId as string } : { refused: body.error.code as string };
    } catch {
      return { refused: 'queue_unavailable' };
    }
  };
}

const again = new Set(['queue_unavailable', 'queue_full']);
const retryMs = 200;
const giveUpMs = 60_000;

/** Sends a message until it is taken or refused for good. */
export async function send(
  door: Door,
  agent: string,
  message: Pick<Sent, 'thread' | 'onBusy' | 'executionId' | 'input'>,
): Promise<Sent> {
  const triedAt = Date.now();
  const { runId, refused } = await take(door, { agent, ...message });
  if (refused !== undefined && refused !== 'concurrent_run' && refused !== 'thread_suspended')
    throw new Error(`${message.executionId} was refused with ${refused}`);
  return { ...message, triedAt, answeredAt: Date.now(), ...(runId !== undefined && { runId }) };
}

/** Asks for a run until it is taken or refused for good, as a client does whose answers may get lost. */
export async function take(
  door: Door,
  request: RunRequestInput,
): Promise<{ readonly runId?: string; readonly refused?: string }> {
  const deadline = performance.now() + giveUpMs;
  for (;;) {
    const answer = await door(request);
    if ('runId' in answer || !again.has(answer.refused)) return answer;
    if (performance.now() > deadline) throw new Error(`${request.executionId} was not taken: ${answer.refused}`);
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}
