import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const isSource = extname(import.meta.url) === '.ts';

/** Beside the built producer; for one that runs from source, where `scripts/setup.mjs console` puts it. */
export const consoleFolder = fileURLToPath(
  new URL(isSource ? '../../../.cache/console' : '../console', import.meta.url),
);

/**
 * Only files of this origin: no inline script or style, no frame around the page, no form and no request to anywhere
 * else.
 */
export const consolePolicy = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const mediaTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

export interface ConsoleFile {
  readonly mediaType: string;
  readonly bytes: Buffer;
  readonly gzipped: Buffer;
  readonly etag: string;
}

/** What a build of the console consists of: the page, and its assets by name. Undefined where it is not built. */
export interface ConsoleFiles {
  readonly page: ConsoleFile;
  readonly assets: ReadonlyMap<string, ConsoleFile>;
}

/** Reads a build into memory, compressed once: it is some hundred kilobytes, and no request then names a path on the disk. */
export function readConsole(folder: string): ConsoleFiles | undefined {
  const page = join(folder, 'index.html');
  if (!existsSync(page)) return undefined;
  const assets = join(folder, 'assets');
  const names = existsSync(assets) ? readdirSync(assets).filter((name) => extname(name) in mediaTypes) : [];
  return { page: fileAt(page), assets: new Map(names.map((name) => [name, fileAt(join(assets, name))])) };
}

function fileAt(path: string): ConsoleFile {
  const bytes = readFileSync(path);
  return {
    mediaType: mediaTypes[extname(path)] ?? 'application/octet-stream',
    bytes,
    gzipped: gzipSync(bytes),
    etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
  };
}
