import { promisify } from 'node:util';
import { deflate, deflateSync, inflate } from 'node:zlib';
import { RunError } from '../../base/errors.ts';
import { dictionary } from './dictionary.ts';

const deflated = promisify(deflate);
const inflated = promisify(inflate);

/** How the bytes after it are written. */
const form = 2;
/** A value is unpacked only up to here. */
const maxOutputLength = 256 * 1024 * 1024;

/** A tenth larger than at the usual level, for half of its time. */
const packing = { level: 3, dictionary };
/** Up to here it takes less time than to have another thread do it. */
const smallBytes = 65_536;
/** What is small needs smaller buffers: to make them takes as long as to fill them. */
const smallPacking = { ...packing, memLevel: 4, windowBits: 14, chunkSize: 4_096 };
/** Where small texts become bytes, one after the other. */
const smallText = Buffer.allocUnsafeSlow(smallBytes);

/** A text as the archive keeps it: deflated, with a dictionary of what all runs have in common. */
export async function packed(text: string): Promise<Buffer> {
  const isSmall = Buffer.byteLength(text) <= smallBytes;
  const body = isSmall
    ? deflateSync(smallText.subarray(0, smallText.write(text)), smallPacking)
    : await deflated(text, packing);
  return Buffer.concat([Buffer.of(form), body]);
}

/** The text again. Throws `internal` for bytes that are damaged, or that a later version wrote. */
export async function unpacked(bytes: Uint8Array, name: string): Promise<string> {
  if (bytes[0] !== form) throw new RunError('internal', `${name} in the archive was written by another version`);
  try {
    return (await inflated(bytes.subarray(1), { dictionary, maxOutputLength })).toString('utf8');
  } catch (cause) {
    throw new RunError('internal', `${name} in the archive is damaged`, { cause });
  }
}
