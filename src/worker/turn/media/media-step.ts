import { cleanText } from '../../../shared/base/text.ts';
import { RunError } from '../../../shared/base/errors.ts';
import type { Attempt } from '../../../shared/contract/journal/journal.ts';
import { handleOf, maxMediaBytes, type MediaPart, type MediaModality } from '../../../shared/contract/media.ts';
import { zeroUsage } from '../../../shared/contract/money.ts';
import { asLlmError } from '../../llm/candidate.ts';
import type { ChainCall, Permit } from '../../llm/chain-call.ts';
import { cancelledCall, LlmError } from '../../llm/errors.ts';
import { skippedError } from '../../llm/fallback-chain.ts';
import type { Granted } from '../../llm/attempt.ts';
import { defined } from '../../../shared/base/collections.ts';
import type { MediaBytes, MediaCall, MediaPort, MediaStart, MediaOffer } from '../../llm/provider.ts';
import { ShownText } from '../shown-text.ts';
import { recordEntry, TurnSuspension, type MediaMaking, type Turn } from '../turn-ports.ts';
import { attemptsMade, listen } from '../listen.ts';
import { askPolicy } from '../model-step.ts';
import type { MediaJob } from '../../../shared/contract/journal/fold.ts';
import type { Message } from '../../../shared/contract/message.ts';

const firstPollMs = 5_000;
const longestPollMs = 30_000;
const jobDeadlineMs = 30 * 60_000;

/**
 * Has a model make media, instead of a model call that answers with a text: one call, no other model, no tools. A job is
 * asked for its result now and then; in between the turn is suspended. Throws when there are no media; what was paid is
 * recorded all the same.
 */
export async function makeMedia(turn: Turn, making: MediaMaking): Promise<void> {
  const { mediaJob } = turn.growing.state;
  await (mediaJob ? poll(turn, making, mediaJob) : begin(turn, making));
}

/** What the steps of one order work with. */
interface Making extends MediaMaking {
  readonly turn: Turn;
  readonly step: number;
  /** That the journal does not hold yet. */
  readonly attempts: Attempt[];
}

async function begin(turn: Turn, given: MediaMaking): Promise<void> {
  const { spec, deps, signal, growing } = turn;
  const making: Making = { ...given, turn, step: growing.state.step + 1, attempts: [] };
  const { step, attempts } = making;
  await askPolicy(turn, step);
  const call = mediaCallFor(making, growing.state.messages, deps.requestId(step), attemptsMade(turn) + 1);
  const port = portOf(making);
  deps.emit({ type: 'step.start', stepNumber: step, model: spec.model, modelSource: spec.modelSource });
  const listening = listen(turn, step, attempts, new ShownText(turn, false));
  const permit = await admit(making, call, listening, signal);
  try {
    const started = await ask(making, call, port, permit, listening);
    const { jobId, media } = checked(started, making, port);
    await (media ? finish(making, media) : submitted(making, jobId));
  } catch (error) {
    const isRecorded = attempts.every((attempt) => growing.state.attempts.includes(attempt));
    if (!isRecorded && !(error instanceof TurnSuspension)) await recordEntry(turn, { t: 'attempted', step, attempts });
    throw error;
  }
}

function portOf({ provider, model }: MediaMaking): MediaPort {
  if (provider.media) return provider.media;
  throw new RunError('internal', `provider ${provider.id} cannot make media, which model ${model} is mapped to`);
}

async function admit(
  { provider, model, offer, step }: Making,
  call: MediaCall,
  { firstAttemptNumber: attemptNumber, admit: ask }: ChainCall,
  signal: AbortSignal,
): Promise<Granted> {
  const { requestId, idempotencyKey } = call;
  // There are no tokens to pay for.
  const request = { model, requestId, idempotencyKey, messages: [], maxOutputTokens: 0 };
  const fixedMicrocents = priceOf(call, offer);
  const planned = { step, provider, attemptNumber, price: undefined, request, fixedMicrocents };
  const permit: Permit = (await ask?.(planned, signal)) ?? { kind: 'go', settle: async () => {} };
  if (permit.kind === 'skip') throw skippedError({ provider, model }, permit);
  return permit;
}

/** The one call. Its attempt is emitted and settled before anything else happens. */
async function ask(
  { turn, step, provider, model, offer }: Making,
  call: MediaCall,
  port: MediaPort,
  permit: Granted,
  listening: ChainCall,
): Promise<MediaStart> {
  const { deps, signal } = turn;
  const startedMs = deps.clock.monotonic();
  const price = priceOf(call, offer);
  const priced = price !== undefined;
  const record = () => {
    const latencyMs = Math.max(0, Math.round(deps.clock.monotonic() - startedMs));
    const { firstAttemptNumber: attemptNumber } = listening;
    return { attemptNumber, step, provider: provider.id, model, requestId: call.requestId, priced, latencyMs };
  };
  try {
    if (signal.aborted) throw cancelledCall(provider.id, signal);
    const started = await port.generateMedia(call, signal);
    const costMicrocents = price ?? 0;
    await permit.settle({ usage: zeroUsage, costMicrocents, priced, rateLimit: undefined });
    listening.onAttempt({ ...record(), outcome: 'succeeded', usage: zeroUsage, costMicrocents, finishReason: 'stop' });
    return started;
  } catch (thrown) {
    const error = asLlmError(thrown, provider.id, signal);
    const { kind, message, status, rateLimit } = error;
    await permit.settle({ usage: undefined, costMicrocents: 0, priced, rateLimit, error });
    listening.onAttempt({
      ...record(),
      outcome: 'failed',
      costMicrocents: 0,
      error: defined({ kind, message, status }),
    });
    throw thrown instanceof RunError ? thrown : error;
  }
}

/** Providers are code of others: what they answer is looked at. */
function checked(started: MediaStart, { provider, model }: MediaMaking, port: MediaPort): MediaStart {
  const { media, jobId }: { readonly media?: unknown; readonly jobId?: unknown } = started;
  const fault = (what: string) => new RunError('internal', `provider ${provider.id} ${what}`);
  if ((media === undefined) === (jobId === undefined))
    throw fault(`must answer with media or with a job for model ${model}`);
  if (jobId === undefined) return started;
  if (!port.pollMedia) throw fault('gave a media job and cannot be asked for it');
  if (typeof jobId !== 'string' || jobId === '' || jobId.length > maxJobIdChars)
    throw fault('gave a media job an id that is none');
  return { jobId: cleanText(jobId) };
}

/** It is what the run waits for, and part of the address that is asked. */
const maxJobIdChars = 512;

async function submitted({ turn, step, attempts, provider: { id }, model }: Making, jobId = ''): Promise<void> {
  const { deps, growing } = turn;
  const job = { jobId, provider: id, model };
  deps.emit({ type: 'media_job.submitted', ...job });
  const at = new Date(deps.clock.now()).toISOString();
  await recordEntry(turn, { t: 'submitted', step, attempts, ...job, at });
  throw waitFor(turn, growing.state.mediaJob as MediaJob);
}

async function poll(turn: Turn, making: MediaMaking, job: MediaJob): Promise<void> {
  const { provider, model } = making;
  const { signal, deps } = turn;
  const step = turn.growing.state.step + 1;
  if (job.provider !== provider.id) {
    const problem = `media job at provider ${job.provider}, which model ${model} is no longer served by`;
    throw new RunError('internal', problem);
  }
  const media = await portOf(making)
    .pollMedia?.(job.jobId, signal)
    .catch((thrown: unknown) => {
      const error = asLlmError(thrown, provider.id, signal);
      return error.retryable ? undefined : error;
    });
  signal.throwIfAborted();
  if (media && !(media instanceof LlmError)) return await finish({ ...making, turn, step, attempts: [] }, media);
  if (!media && deps.clock.now() < job.submittedAtMs + jobDeadlineMs) throw waitFor(turn, job);
  // This job is never asked for again: a further try of the run gives a new one.
  await recordEntry(turn, { t: 'attempted', step, attempts: [] });
  const late = `provider ${provider.id} did not finish a media job within 30 minutes`;
  throw media ?? new RunError('provider_unavailable', late);
}

function waitFor({ deps }: Turn, { jobId, submittedAtMs, polls, provider }: MediaJob): TurnSuspension {
  const untilMs = submittedAtMs + jobDeadlineMs;
  const pauseMs = Math.min(firstPollMs * 2 ** Math.min(polls, 10), longestPollMs);
  const [requestedAt, expiresAt] = [new Date(submittedAtMs).toISOString(), new Date(untilMs).toISOString()];
  const item = {
    kind: 'media',
    id: jobId,
    requestedAt,
    expiresAt,
    reason: `provider ${provider} works on it`,
  } as const;
  const resumeAtMs = Math.min(deps.clock.now() + pauseMs, untilMs);
  return new TurnSuspension({ reason: 'media', pending: [item], resumeAtMs });
}

async function finish(making: Making, made: readonly MediaBytes[]): Promise<void> {
  const { turn, step, attempts, provider, model, offer } = making;
  const { deps } = turn;
  const media: MediaPart[] = [];
  if (made.length === 0)
    throw new RunError('provider_unavailable', `provider ${provider.id} made no ${offer.modality}`);
  for (const { bytes, mediaType: named } of made) {
    const mediaType = mediaTypeOf(named, offer.modality);
    if (bytes.length > maxMediaBytes) {
      throw new RunError('validation', `a file of ${bytes.length} bytes from ${model} is over ${maxMediaBytes}`);
    }
    const handle = handleOf(await making.keep(bytes, mediaType));
    media.push({ type: offer.modality, handle, mediaType, bytes: bytes.length });
  }
  for (const { handle, mediaType } of media) deps.emit({ type: 'file.generated', handle, mediaType });
  deps.emit({ type: 'step.end', stepNumber: step, usage: zeroUsage, finishReason: 'stop' });
  await recordEntry(turn, { t: 'generated', step, attempts, provider: provider.id, model, media });
}

/** What sound and video last by default. */
const defaultSeconds = 4;

/** The call that a turn makes. Throws `validation` for wishes that the model cannot meet. */
function mediaCallFor(
  { model, offer, wanted, most = {} }: Pick<MediaMaking, 'model' | 'offer' | 'wanted' | 'most'>,
  messages: readonly Message[],
  requestId: string,
  attemptNumber: number,
): MediaCall {
  const { modality } = offer;
  const { modalities = [modality], count = 1, seconds, size } = wanted;
  if (modalities.length > 1)
    throw wrong(`${model} makes one kind of output at a time, not ${modalities.join(' and ')}`);
  if (modalities[0] !== modality) throw wrong(`${model} makes ${modality}, not ${modalities[0]}`);
  if (seconds !== undefined && modality === 'image') throw wrong(`seconds have no meaning for the images of ${model}`);
  const asked = messages.findLast((message) => message.role === 'user');
  const prompt = asked?.content ?? '';
  if (prompt.trim() === '') throw wrong(`${model} needs a prompt: the input of the run is empty`);
  return {
    model,
    requestId,
    // Another order after one that failed is no repeat of it.
    idempotencyKey: `${requestId}:${attemptNumber}`,
    modality,
    prompt,
    count: Math.min(count, most.count ?? count),
    ...(modality !== 'image' && { seconds: Math.min(seconds ?? defaultSeconds, most.seconds ?? Infinity) }),
    ...(size !== undefined && { size }),
  };
}

/** Microcents of a call, or undefined when the operator gave no price. */
export function priceOf({ count, seconds = 1 }: MediaCall, { unitMicrocents }: MediaOffer): number | undefined {
  return unitMicrocents === undefined ? undefined : unitMicrocents * count * seconds;
}

const unnamed: Readonly<Record<MediaModality, string>> = {
  image: 'image/png',
  audio: 'audio/mpeg',
  video: 'video/mp4',
};

/** The type under which bytes are kept. Throws `validation` when they are something else than was asked for. */
function mediaTypeOf(named: string, modality: MediaModality): string {
  if (named === 'application/octet-stream' || named === 'binary/octet-stream') return unnamed[modality];
  if (named.startsWith(`${modality}/`) && /^[a-z]+\/[a-z0-9.+-]{1,60}$/.test(named)) return named;
  throw wrong(`the provider answered with ${named.slice(0, 80)} where ${modality} was asked for`);
}

function wrong(message: string): RunError {
  return new RunError('validation', message);
}
