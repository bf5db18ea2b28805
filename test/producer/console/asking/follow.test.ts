import { expect, test } from 'vitest';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import { follow } from '../../../../src/producer/console/follow.ts';

/** A stream of events as the producer sends them, which then stays open. */
function streamOf(numbers: readonly number[], last: string, leave: AbortSignal): Response {
  const lines = numbers.map((sequenceNumber, at) =>
    JSON.stringify({ sequenceNumber, type: at === numbers.length - 1 ? last : 'step.start' }),
  );
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(lines.map((line) => `${line}\n`).join('')));
      leave.addEventListener('abort', () => controller.error(leave.reason));
    },
  });
  return new Response(body);
}

test('a stream that says nothing any more is opened anew behind what came', async () => {
  const opened: number[] = [];
  const seen: number[] = [];
  const open = async (after: number, leave: AbortSignal) => {
    opened.push(after);
    return after === 0 ? streamOf([1, 2], 'step.end', leave) : streamOf([3, 4], 'run.completed', leave);
  };
  const onEvent = ({ sequenceNumber }: RunEvent) => void seen.push(sequenceNumber);
  await follow({ open, after: 0, onEvent, onLive: () => {}, silenceMs: 50 }, new AbortController().signal);
  expect([opened, seen]).toEqual([
    [0, 2],
    [1, 2, 3, 4],
  ]);
});
