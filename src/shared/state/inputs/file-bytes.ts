import { assertNever, RunError } from '../../base/errors.ts';
import { inputFileTtlS, maxInputFileBytes, type InputFile } from '../../contract/input-parts.ts';
import { sha256Of } from '../../contract/media.ts';
import type { MediaStore } from '../results/media-store.ts';
import type { UploadedFiles } from './uploaded-files.ts';

/** Where the bytes of inputs are. */
export interface FileBytes {
  readonly media: Pick<MediaStore, 'read' | 'keep'>;
  readonly files: UploadedFiles;
}

/** Are the bytes there? Those that came with a request are then kept for another week. */
export async function hasBytes(tenant: string, { source }: InputFile, { media, files }: FileBytes): Promise<boolean> {
  switch (source.from) {
    case 'media':
      return await media.keep(tenant, sha256Of(source.handle) ?? '', inputFileTtlS);
    case 'file':
      return (await files.info(tenant, source.id)) !== undefined;
    case 'url':
      return false;
    default:
      return assertNever(source);
  }
}

/** All bytes of a file; undefined when they are not there any more. Throws `payload_too_large`, `queue_unavailable`. */
export async function bytesOfFile(
  tenant: string,
  { source }: InputFile,
  { media, files }: FileBytes,
): Promise<Buffer | undefined> {
  switch (source.from) {
    case 'media':
      return (await media.read(tenant, sha256Of(source.handle) ?? ''))?.bytes;
    case 'file': {
      const info = await files.info(tenant, source.id);
      if (!info) return undefined;
      if (info.bytes > maxInputFileBytes)
        throw new RunError('payload_too_large', `file ${source.id} is over ${maxInputFileBytes} bytes`);
      const chunks: Uint8Array[] = [];
      for await (const chunk of files.read(tenant, source.id)) chunks.push(chunk);
      return Buffer.concat(chunks);
    }
    case 'url':
      return undefined;
    default:
      return assertNever(source);
  }
}
