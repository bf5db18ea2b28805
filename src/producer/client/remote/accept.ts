import { inBatches } from '../../../shared/base/collections.ts';
import { isRecord } from '../../../shared/base/json.ts';
import { asRunError, RunError } from '../../../shared/base/run-error.ts';
import type { Accepted, BulkAnswer } from '../enqueue.ts';
import { unreachable } from './answers.ts';
import { isPassingTrouble, jsonBody, type Link } from './link.ts';

/** As many as a producer takes. */
const maxBulk = 10_000;
/** One request of a producer takes 64 MiB; what is sent at a time is in memory here and there. */
const partBounds = { most: maxBulk, maxBytes: 8 * 1024 * 1024 };
const largestLineBytes = 63 * 1024 * 1024;
/** A producer that is busy with other large bodies lets one wait for a minute. */
const bulkAnswerMs = 180_000;

/** As a producer answers: without warnings where there are none. */
type AcceptedBody = Omit<Accepted, 'warnings'> & { readonly warnings?: readonly string[] };

/**
 * Starts a run. Without an execution id it gets one here, so that a request that is sent again, because its answer was lost, starts no
 * second run.
 */
export async function acceptRemote(link: Link, request: unknown, signal: AbortSignal | undefined): Promise<Accepted> {
  const named = withExecutionId(request);
  const json = named.request;
  const answer = await link.json<AcceptedBody>({
    method: 'POST',
    path: '/v1/runs',
    body: { json },
    isRepeatable: true,
    signal,
  });
  return acceptedOf(answer, named.isNew);
}

interface Line {
  readonly text: string;
  readonly isNew: boolean;
}

/** Starts many runs, in requests of at most 8 MiB. Throws as `enqueueMany`. */
export async function acceptManyRemote(link: Link, requests: readonly unknown[]): Promise<readonly BulkAnswer[]> {
  if (requests.length > maxBulk) throw new RunError('validation', `at most ${maxBulk} runs in one request`);
  const answers: BulkAnswer[] = [];
  let trouble: RunError | undefined;
  for (const part of inBatches(requests.map(lineOf), bytesOf, partBounds)) {
    const lines = part.filter((line): line is Line => !(line instanceof RunError));
    const taken = trouble ? [] : await sendLines(link, lines).catch(passing);
    if (taken instanceof RunError) trouble = taken;
    const given = taken instanceof RunError ? [][Symbol.iterator]() : taken[Symbol.iterator]();
    for (const line of part) {
      const answer: BulkAnswer | undefined = line instanceof RunError ? refusalOf(line) : given.next().value;
      answers.push(answer ?? refusalOf(trouble ?? unreachable('the answer has fewer entries than the request')));
    }
  }
  if (trouble && answers.every((answer) => 'error' in answer)) throw trouble;
  return answers;
}

async function sendLines(link: Link, lines: readonly Line[]): Promise<readonly BulkAnswer[]> {
  if (lines.length === 0) return [];
  const found = await link.json<readonly (AcceptedBody | Extract<BulkAnswer, { error: unknown }>)[]>({
    method: 'POST',
    path: '/v1/runs/bulk',
    body: { text: lines.map(({ text }) => `${text}\n`).join(''), type: 'application/x-ndjson' },
    isRepeatable: true,
    answerMs: bulkAnswerMs,
  });
  return found.map((answer, i) => ('error' in answer ? answer : acceptedOf(answer, lines[i]?.isNew ?? false)));
}

function lineOf(request: unknown): Line | RunError {
  try {
    const named = withExecutionId(request);
    const line = { text: jsonBody(named.request), isNew: named.isNew };
    if (bytesOf(line) <= largestLineBytes) return line;
    return new RunError('payload_too_large', 'the request is larger than all of a bulk request may be');
  } catch (error) {
    return asRunError(error);
  }
}

/** Of UTF-8 at most; exact bytes would cost a copy of every line. */
function bytesOf(line: Line | RunError): number {
  return line instanceof RunError ? 0 : line.text.length * 3;
}

function passing(error: unknown): RunError {
  if (isPassingTrouble(error)) return error;
  throw error;
}

function refusalOf({ code, message, retryable, details }: RunError): BulkAnswer {
  return { error: { code, message, retryable, ...(details !== undefined && { details }) } };
}

/** A run under an id that was made here was not there before, however often it was asked for. */
function acceptedOf({ runId, status, attached, warnings = [] }: AcceptedBody, isNew: boolean): Accepted {
  return { runId, status, attached: attached && !isNew, warnings };
}

function withExecutionId(request: unknown): { readonly request: unknown; readonly isNew: boolean } {
  if (!isRecord(request) || (request['executionId'] !== undefined && request['executionId'] !== null))
    return { request, isNew: false };
  return { request: { ...request, executionId: newKey() }, isNew: true };
}

/** A key that no other request has. `crypto.randomUUID` is not there on pages without TLS. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `http-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
