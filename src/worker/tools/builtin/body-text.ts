const textual =
  /^(text\/|application\/([\w.+-]*\+)?(json|xml)\b|application\/(javascript|ecmascript|x-www-form-urlencoded|x-ndjson|yaml|x-yaml|toml|graphql|sql)\b|image\/svg\+xml)/;
const nul = 0;

/**
 * The text of a body by its charset, or a note about what it is. What has no type is text when it can be read as UTF-8. A
 * character that was cut off at the end of a truncated body is left out.
 */
export function bodyText(body: Uint8Array, contentType: string, truncated: boolean): string {
  const type = contentType.toLowerCase();
  const charset = /;\s*charset\s*=\s*"?([\w.:-]+)/.exec(type)?.[1] ?? 'utf-8';
  if (textual.test(type)) return decoderOf(charset, false).decode(body, { stream: truncated });
  if (type.trim() === '' || type.startsWith('application/octet-stream')) {
    const text = utf8Text(body, truncated);
    if (text !== undefined) return text;
  }
  const [kind] = type.split(';', 1);
  return `[not text: ${kind?.trim() || 'no type'}, ${truncated ? 'more than ' : ''}${body.length} bytes]`;
}

/** The bytes as UTF-8 text, or undefined when they are none. `cut`: the last character may not be whole. */
export function utf8Text(bytes: Uint8Array, cut: boolean): string | undefined {
  if (bytes.includes(nul)) return undefined;
  try {
    return decoderOf('utf-8', true).decode(bytes, { stream: cut });
  } catch {
    return undefined;
  }
}

function decoderOf(charset: string, fatal: boolean) {
  try {
    return new TextDecoder(charset, { fatal });
  } catch {
    return new TextDecoder('utf-8', { fatal });
  }
}
