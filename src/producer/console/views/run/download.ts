import { api, blobAt, transferMs } from '../../api.ts';

/** Everything about a run as one document. */
export async function exportOf(runId: string): Promise<string> {
  return JSON.stringify(await api(`/v1/runs/${encodeURIComponent(runId)}/export`, { deadlineMs: transferMs }), null, 2);
}

/** The bytes of a file that came with a request, as a `data:` URL. */
export async function bytesOf(handle: string, mediaType: string | undefined): Promise<string> {
  const blob = await blobAt(`/v1/media/${encodeURIComponent(handle.replace(/^media:/, ''))}`);
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const type = mediaType ?? (blob.type || 'application/octet-stream');
  // In pieces: a call has only so many arguments.
  const piece = 32_768;
  const letters = Array.from({ length: Math.ceil(bytes.length / piece) }, (_, index) =>
    String.fromCharCode(...bytes.subarray(index * piece, (index + 1) * piece)),
  );
  return `data:${type};base64,${btoa(letters.join(''))}`;
}
