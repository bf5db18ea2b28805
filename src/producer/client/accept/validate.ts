import { invalid } from '../../../shared/base/problems.ts';
import { cleanJson } from '../../../shared/base/text.ts';
import { deeperThan, maxLevels } from '../../../shared/base/json.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { hasFiles, joinedParts } from '../../../shared/contract/input-parts.ts';
import { runId as runIdSchema } from '../../../shared/base/ids.ts';
import { maxEvaluatedInputBytes } from '../../../shared/contract/orchestration/requests.ts';
import { cutText, findSecretKey } from '../../../shared/base/redact.ts';
import { isOrchestrated, maxInputBytes, runRequestBody, workOf, type AskedRun } from '../../../shared/contract/run.ts';
import type { z } from 'zod';

const idFields: ReadonlySet<PropertyKey> = new Set([
  'agent',
  'thread',
  'batch',
  'executionId',
  'sessionId',
  'projectId',
]);

/**
 * A caller's request with defaults in place. Throws `too_deep`, `secret_in_payload`, `payload_too_large`, `invalid_id`
 * when nothing but ids is wrong, or `validation` whose details list every problem as path and message.
 */
export function parseRequest(input: unknown): AskedRun {
  const request = parseSafely(runRequestBody, 'input', input);
  refuseContradictions(request);
  return request;
}

/** Kinds of work in place of a turn, and what only a turn understands: at most one of the former, and with it nothing of both. */
const exclusive = [
  'fanOut',
  'evaluate',
  'taskRun',
  'thread',
  'onBusy',
  'chat',
  'node',
  'task',
  'media',
  'history',
  'instructions',
  'outputSchema',
] as const;

/** A node has words of its own for them. */
const notOfNodes = ['instructions', 'outputSchema'] as const;

function mixedWith(request: AskedRun) {
  const [work, ...others] = exclusive.filter((field) => request[field] !== undefined);
  if (!isOrchestrated(workOf(request))) return [];
  const files = hasFiles(request.input) ? [{ path: 'input', message: `cannot hold files with ${work}` }] : [];
  return [...files, ...others.map((path) => ({ path, message: `cannot be given with ${work}` }))];
}

/** Fields that make no sense beside each other. */
function refuseContradictions(request: AskedRun): void {
  const { deadlineMs, delayMs = 0, onBusy, thread, evaluate, input, compact, media, node, store, history } = request;
  const problems = [
    ...mixedWith(request),
    ...notOfNodes
      .filter((path) => node !== undefined && request[path] !== undefined)
      .map((path) => ({ path, message: 'cannot be given with node, which says it itself' })),
    store !== undefined &&
      thread !== undefined && { path: 'store', message: 'false cannot be given with a thread, which keeps the turn' },
    onBusy === 'steer' &&
      history !== undefined && { path: 'onBusy', message: 'steer cannot be given with history: it sends one message' },
    evaluate !== undefined &&
      Buffer.byteLength(typeof input === 'string' ? input : joinedParts(input).text) > maxEvaluatedInputBytes && {
        path: 'input',
        message: `at most ${maxEvaluatedInputBytes} bytes with evaluate`,
      },
    deadlineMs !== undefined &&
      deadlineMs <= delayMs && {
        path: 'deadlineMs',
        message: 'must be more than delayMs: both count from the acceptance of the run',
      },
    onBusy === 'steer' &&
      delayMs > 0 && {
        path: 'onBusy',
        message: 'steer cannot be delayed: it sends the message to the run that is running now',
      },
    media !== undefined &&
      hasFiles(input) && {
        path: 'input',
        message: 'cannot hold files with media: a model that makes media is given text',
      },
    onBusy === 'steer' &&
      hasFiles(input) && { path: 'input', message: 'cannot hold files with steer: a running run is sent text' },
    compact !== undefined &&
      thread === undefined && { path: 'compact', message: 'needs a thread: without one there is nothing to summarise' },
    compact !== undefined &&
      onBusy === 'steer' && { path: 'compact', message: 'cannot be given with steer: a running run reads the message' },
    onBusy !== undefined &&
      thread === undefined && { path: 'onBusy', message: 'needs a thread: without one no other run is in the way' },
  ].filter((problem) => problem !== false);
  const [first] = problems;
  if (!first) return;
  throw new RunError('validation', `the request is not valid: ${first.path}: ${first.message}`, { details: problems });
}

const maxPathBytes = 256;

/** The same for any schema whose field `text` is the user's message. */
export function parseSafely<T extends z.ZodType>(schema: T, text: string, input: unknown): z.output<T> {
  const safe = safeInput(input);
  refuseLargeText(text, safe);
  const parsed = schema.safeParse(safe);
  if (parsed.success) return parsed.data;
  const code = parsed.error.issues.every(isIdIssue) ? 'invalid_id' : 'validation';
  throw invalid(code, 'the request is not valid', parsed.error, schema);
}

/**
 * What a caller sent, with clean texts: half a character or a NUL becomes U+FFFD. Throws `too_deep`, or `secret_in_payload`
 * for a key that looks like a credential.
 */
export function safeInput(input: unknown): unknown {
  if (deeperThan(input, maxLevels))
    throw new RunError('too_deep', `the request is nested deeper than ${maxLevels} levels`);
  const found = findSecretKey(input);
  if (found === undefined) return cleanJson(input);
  const secret = cutText(found, maxPathBytes);
  throw new RunError('secret_in_payload', `${secret} looks like a credential; runs must not carry any`, {
    details: { path: secret },
  });
}

/**
 * Run ids are made by us, so one with any other character is a mistake (`invalid_id`), and one that merely is not of our
 * form cannot exist (`run_not_found`). Nothing else reaches a Redis key.
 */
export function checkRunId(runId: unknown): string {
  if (typeof runId !== 'string' || !/^[A-Za-z0-9_-]{1,128}$/.test(runId))
    throw new RunError('invalid_id', 'this is not a run id');
  if (!runIdSchema.safeParse(runId).success) throw runNotFound(runId);
  return runId;
}

/** Tenants become part of keys. The form is that of `MILLRACE_API_KEYS`. */
export function checkTenant(tenant: string): string {
  if (/^[A-Za-z0-9._-]{1,64}$/.test(tenant)) return tenant;
  throw new RunError('invalid_config', 'a tenant is 1 to 64 characters of A-Z a-z 0-9 . _ -');
}

/** The one answer for a run that does not exist and for one that belongs to another tenant. */
export function runNotFound(runId: string): RunError {
  return new RunError('run_not_found', `there is no run ${runId}`);
}

function refuseLargeText(field: string, input: unknown): void {
  if (input === null || typeof input !== 'object') return;
  const text: unknown = Reflect.get(input, field);
  if (typeof text === 'string' && Buffer.byteLength(text) > maxInputBytes)
    throw new RunError('payload_too_large', `${field} is over ${maxInputBytes} bytes`);
}

/** A string of the wrong form in a field that holds an id; a missing or non-string one is a plain mistake of shape. */
function isIdIssue(issue: z.core.$ZodIssue): boolean {
  return issue.code === 'invalid_format' && issue.path.length === 1 && idFields.has(issue.path[0] as PropertyKey);
}

/**
 * `operator`: a process that reaches Redis, or a key with the scope `admin`. `caller`: every other client, which gets no more than
 * operators and the authors of agents gave.
 */
export type Rights = 'operator' | 'caller';

/** On whose behalf something is asked for. */
export interface Caller {
  readonly tenant: string;
  readonly rights: Rights;
  /** Of the HTTP request, for the lines of logs. */
  readonly requestId: string | undefined;
  /** Who asks, for the audit log: the API key by its digest, or a name. Undefined: a process with a connection to Redis. */
  readonly by?: string | undefined;
}

/** Throws `forbidden` for a caller. `what` completes "… needs the scope admin". */
export function requireOperator({ rights }: Pick<Caller, 'rights'>, what: string): void {
  if (rights === 'caller') throw new RunError('forbidden', `${what} needs the scope admin`);
}
