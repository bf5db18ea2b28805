import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '../fixtures/input');

/** A picture or a document of the fixtures: `mill.png`, `mill.jpg`, `mill.gif`, `mill.webp`, `mill-lossless.webp`, `invoice.pdf`. */
export function fixtureFile(name: string): Buffer {
  return readFileSync(join(folder, name));
}

export function base64Of(name: string): string {
  return fixtureFile(name).toString('base64');
}

/** A picture of so many bytes, as far as its head says. */
export function largePicture(bytes: number): Buffer {
  const png = fixtureFile('mill.png');
  return Buffer.concat([png, Buffer.alloc(bytes - png.length, 7)]);
}

export interface FileServer extends AsyncDisposable {
  readonly url: string;
  /** `host:port`, for `EGRESS_ALLOWED_HOSTS`. */
  readonly host: string;
  /** Paths that were asked for, in order. */
  readonly asked: readonly string[];
}

/** Serves bytes by path. A number is a status without a body; a text is where a redirect leads. */
export async function startFileServer(
  files: Readonly<Record<string, { readonly type: string; readonly body: Buffer } | number | string>>,
): Promise<FileServer> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    asked.push(path);
    const file = files[path] ?? 404;
    if (typeof file === 'number') response.writeHead(file).end();
    else if (typeof file === 'string') response.writeHead(302, { location: file }).end();
    else response.writeHead(200, { 'content-type': file.type }).end(file.body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `http://${host}`,
    host,
    asked,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
