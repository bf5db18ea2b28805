import { clip } from '../../shared/base/bound-text.ts';

const maxIdChars = 200;

/** What the server calls the request, as its support asks for it. */
export function requestIdOf(headers: { get(name: string): string | null }): string | undefined {
  const id = headers.get('x-request-id') ?? headers.get('request-id');
  return id === null || id === '' ? undefined : clip(id, maxIdChars);
}
