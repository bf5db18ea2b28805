/**
 * The header that has a browser save an answer under this name, whatever the name contains: in plain letters for old clients, and
 * as it is in UTF-8 (RFC 6266).
 */
export function contentDisposition(filename: string): string {
  const plain = filename.replaceAll(/[^A-Za-z0-9._ -]/g, '_');
  const encoded = encodeURIComponent(filename.toWellFormed()).replaceAll(/['()*]/g, percent);
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

function percent(char: string): string {
  return `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
}
