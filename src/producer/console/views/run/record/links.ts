/** Where the bytes behind the handle `media://sha256-…` of a result are. */
export function mediaHref(handle: string): string {
  return `/v1/media/${encodeURIComponent(handle.replace(/^media:\/\/sha256-/, ''))}`;
}

/** The part of a page that an address points at. A hash that is no text points at none. */
export function anchorIn(hash: string): string {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return '';
  }
}
