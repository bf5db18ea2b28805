import { type MediaStore, namedMedia } from '../../../shared/state/results/media-store.ts';

export interface StoredMedia {
  readonly mediaType: string;
  readonly bytes: Buffer;
}

export interface MemoryMedia extends MediaStore {
  get(tenant: string, sha256: string): StoredMedia | undefined;
}

/** All files together; the oldest make room. */
const maxBytes = 256 * 1024 * 1024;

/** Generated files of one process. */
export function memoryMedia(): MemoryMedia {
  const files = new Map<string, StoredMedia>();
  let size = 0;
  return {
    async put(tenant, bytes, mediaType) {
      const { sha256, buffer } = namedMedia(bytes);
      const name = `${tenant}/${sha256}`;
      drop(name);
      files.set(name, { mediaType, bytes: buffer });
      size += buffer.length;
      for (const oldest of files.keys()) {
        if (size <= maxBytes) break;
        drop(oldest);
      }
      return sha256;
    },
    get: (tenant, sha256) => files.get(`${tenant}/${sha256}`),
  };

  function drop(name: string): void {
    size -= files.get(name)?.bytes.length ?? 0;
    files.delete(name);
  }
}
