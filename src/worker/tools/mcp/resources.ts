import { partOf, type ReadRequest, type ResultReader } from '../source.ts';
import { ToolError } from '../tool-error.ts';
import type { Connection } from './connection.ts';
import { ServerGone, ServerRefusal } from './link.ts';

const maxNamed = 10_000;
const maxHandleChars = 2_048;

type Source = Pick<Connection, 'request' | 'clean'>;

/** The resources that the results of one run have named, and nothing else that its servers have. */
export class RunResources {
  readonly #named = new Map<string, { readonly server: string; readonly source: Source }>();
  /** Pages of one text have to fit together. */
  #last: { readonly handle: string; readonly bytes: Buffer } | undefined;

  /** The first server that names a URI keeps it. Answers whether the handle leads to this server. */
  name(handle: string, server: string, source: Source): boolean {
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    if (handle === '' || handle.length > maxHandleChars || /[\u0000-\u001f\u007f]/.test(handle)) return false;
    const known = this.#named.get(handle);
    if (known) return known.server === server;
    if (this.#named.size >= maxNamed) return false;
    this.#named.set(handle, { server, source });
    return true;
  }

  readonly reader: ResultReader = async (request) => {
    const found = this.#named.get(request.handle);
    if (!found) return undefined;
    const all = await this.#bytes(request, found.server, found.source);
    const info = { totalBytes: all.length, trust: 'mcp-derived', toolName: found.server } as const;
    const { range: asked, maxBytes } = request;
    const range = asked.kind === 'bytes' ? { ...asked, offset: Math.min(asked.offset, all.length) } : asked;
    return await partOf(range, maxBytes, async (offset, length) => {
      return { bytes: all.subarray(offset, offset + length), info };
    });
  };

  async #bytes({ handle, range, signal }: ReadRequest, server: string, source: Source): Promise<Buffer> {
    const isFirst = range.kind === 'bytes' ? range.offset === 0 : range.startLine === 1;
    if (!isFirst && this.#last?.handle === handle) return this.#last.bytes;
    const bytes = Buffer.from(await readText(handle, server, source, signal));
    this.#last = { handle, bytes };
    return bytes;
  }
}

async function readText(uri: string, server: string, source: Source, signal: AbortSignal): Promise<string> {
  try {
    const { contents } = await source.request('resources/read', { uri }, { signal, mayRepeat: true });
    const parts: unknown[] = Array.isArray(contents) ? contents : [];
    return parts.map(textOf).join('\n');
  } catch (error) {
    if (error instanceof ServerRefusal)
      throw new ToolError('spill_handle_invalid', `server ${server} did not answer with it`);
    if (error instanceof ServerGone) throw new ToolError('execution_failed', `MCP server ${server}: ${error.message}`);
    throw error;
  }
}

function textOf(part: unknown): string {
  const { text, blob, mimeType } = (part ?? {}) as Record<string, unknown>;
  if (typeof text === 'string') return text;
  const type = typeof mimeType === 'string' ? mimeType : 'application/octet-stream';
  if (typeof blob === 'string' && /^(text\/|application\/(json|xml)\b)/.test(type))
    return Buffer.from(blob, 'base64').toString('utf8');
  const bytes = typeof blob === 'string' ? Buffer.byteLength(blob, 'base64') : 0;
  throw new ToolError(
    'invalid_output',
    `it is no text: ${bytes} bytes of type ${type.slice(0, 100).replaceAll(/[^\w./+-]/g, '_')}`,
  );
}
