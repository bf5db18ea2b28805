import { z } from 'zod';

export const mediaModality = z.enum(['image', 'audio', 'video']);
export type MediaModality = z.infer<typeof mediaModality>;

/** Bytes of one generated file. Larger ones are refused. */
export const maxMediaBytes = 32 * 1024 * 1024;

export const mediaSha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits in lower case');

/** Names bytes by what they are: the same bytes have the same handle. */
export const mediaHandle = z
  .string()
  .regex(/^media:\/\/sha256-[0-9a-f]{64}$/, 'must be media://sha256- and 64 hexadecimal digits');

/** What runs, results and events carry in place of the bytes. `GET /v1/media/:sha256` has those. */
export const mediaPart = z.object({
  type: mediaModality,
  handle: mediaHandle,
  mediaType: z.string(),
  bytes: z.int().min(0),
});
export type MediaPart = z.infer<typeof mediaPart>;

/** What a caller wants of a model that makes images, sound or video. Prices are per image or second. */
export const mediaRequest = z.strictObject({
  /** The kind of output, one only. Default: what the model makes. */
  modalities: z
    .array(z.enum(['text', ...mediaModality.options]))
    .min(1)
    .max(4)
    .optional(),
  /** How many; default 1. */
  count: z.int().min(1).max(10).optional(),
  /** Length of sound or video; default 4. */
  seconds: z.int().min(1).max(600).optional(),
  /** In the provider's words, for instance `1024x1024`. */
  size: z.string().min(1).max(32).optional(),
});
export type MediaRequest = z.infer<typeof mediaRequest>;

/** Handle of bytes with this SHA-256 in hex. */
export function handleOf(sha256: string): string {
  return `media://sha256-${sha256}`;
}

/** The SHA-256 that a handle names, or undefined when it is none. */
export function sha256Of(handle: string): string | undefined {
  return mediaHandle.safeParse(handle).success ? handle.slice(-64) : undefined;
}
