import { createHash } from 'node:crypto';
import { RunError } from '../../base/errors.ts';
import { maxMediaBytes } from '../../contract/media.ts';

/** Bytes under the name that they give themselves. Throws `payload_too_large`. */
export function namedMedia(bytes: Uint8Array): { readonly sha256: string; readonly buffer: Buffer } {
  if (bytes.length > maxMediaBytes) {
    throw new RunError('payload_too_large', `a generated file of ${bytes.length} bytes is over ${maxMediaBytes}`);
  }
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { sha256: createHash('sha256').update(buffer).digest('hex'), buffer };
}
