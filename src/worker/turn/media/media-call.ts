import { RunError } from '../../../shared/base/errors.ts';
import type { MediaModality } from '../../../shared/contract/media.ts';
import type { Message } from '../../../shared/contract/message.ts';
import type { MediaCall, MediaOffer } from '../../llm/provider.ts';
import type { MediaMaking } from '../contract.ts';

/** What sound and video last by default. */
const defaultSeconds = 4;

/** The call that a turn makes. Throws `validation` for wishes that the model cannot meet. */
export function mediaCallFor(
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
export function mediaTypeOf(named: string, modality: MediaModality): string {
  if (named === 'application/octet-stream' || named === 'binary/octet-stream') return unnamed[modality];
  if (named.startsWith(`${modality}/`) && /^[a-z]+\/[a-z0-9.+-]{1,60}$/.test(named)) return named;
  throw wrong(`the provider answered with ${named.slice(0, 80)} where ${modality} was asked for`);
}

function wrong(message: string): RunError {
  return new RunError('validation', message);
}
