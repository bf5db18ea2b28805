import { api, request } from '../../api.ts';

/** Everything about a run as one document. */
export async function exportOf(runId: string): Promise<string> {
  return JSON.stringify(await api(`/v1/runs/${encodeURIComponent(runId)}/export`), null, 2);
}

/** Gives the browser a file to keep. */
export function save(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** The bytes of a file that came with a request, as a `data:` URL. */
export async function bytesOf(handle: string, mediaType: string | undefined): Promise<string> {
  const response = await request(`/v1/media/${encodeURIComponent(handle.replace(/^media:/, ''))}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const type = mediaType ?? response.headers.get('content-type') ?? 'application/octet-stream';
  // In pieces: a call has only so many arguments.
  const piece = 32_768;
  const letters = Array.from({ length: Math.ceil(bytes.length / piece) }, (_, index) =>
    String.fromCharCode(...bytes.subarray(index * piece, (index + 1) * piece)),
  );
  return `data:${type};base64,${btoa(letters.join(''))}`;
}
