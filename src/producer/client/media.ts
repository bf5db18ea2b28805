import { RunError } from '../../shared/base/errors.ts';
import { sha256Of } from '../../shared/contract/media.ts';
import type { ClientCore } from './client-core.ts';

/** Bytes that a run of the tenant generated. */
export interface MediaFile {
  readonly mediaType: string;
  readonly bytes: Buffer;
}

/** Throws `invalid_id` for what is no handle, and `not_found` for bytes that the tenant does not have, or no longer. */
export async function readMedia(handle: string, tenant: string, core: ClientCore): Promise<MediaFile> {
  const sha256 = sha256Of(handle);
  if (sha256 === undefined) throw new RunError('invalid_id', 'a handle is media://sha256- and 64 hexadecimal digits');
  const [type, bytes] = await core.reach((redis) =>
    redis.hmgetBuffer(core.keys.media(tenant, sha256), 'type', 'bytes'),
  );
  if (!type || !bytes) throw new RunError('not_found', `there is no file ${handle}, or its time is over`);
  return { mediaType: type.toString('utf8'), bytes };
}
