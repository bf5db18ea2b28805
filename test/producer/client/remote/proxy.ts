import { createServer, request as send, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** What becomes of one request: it is passed on, or the connection or the answer is tampered with. */
export type Meddling =
  | 'pass'
  /** The producer gets the request and answers; the client sees a broken connection. */
  | 'lose the answer'
  /** The answer ends, in good order or not, after so many events of its stream. */
  | { readonly cutAfterEvents: number; readonly roughly?: true }
  /** The answer begins and nothing follows. */
  | 'fall silent'
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string };

export interface Proxy {
  readonly url: string;
  /** Requests so far, as `METHOD path`. */
  readonly seen: string[];
  /** What becomes of the next requests that fit, in order; then everything is passed on. */
  meddle(fits: string | RegExp, ...next: readonly Meddling[]): void;
}

interface Rule {
  readonly fits: string | RegExp;
  readonly next: Meddling[];
}

/** An HTTP proxy before a producer, which a test has in its hands. */
export async function meddlingProxy(target: string): Promise<Proxy> {
  const seen: string[] = [];
  const rules: Rule[] = [];
  const server: Server = createServer((incoming, outgoing) => {
    const name = `${incoming.method} ${incoming.url}`;
    seen.push(name);
    const rule = rules.find(
      ({ fits, next }) => next.length > 0 && (typeof fits === 'string' ? name.startsWith(fits) : fits.test(name)),
    );
    act(rule?.next.shift() ?? 'pass', target, incoming, outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, seen, meddle: (fits, ...next) => void rules.push({ fits, next: [...next] }) };
}

function act(meddling: Meddling, target: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (typeof meddling === 'object' && 'status' in meddling) {
    incoming.resume();
    outgoing.writeHead(meddling.status, meddling.headers).end(meddling.body);
    return;
  }
  const { method, headers } = incoming;
  const passed = send(new URL(incoming.url ?? '/', target), { method, headers }, (answer) => {
    if (meddling === 'lose the answer') {
      answer.resume().on('end', () => outgoing.destroy());
      return;
    }
    outgoing.writeHead(answer.statusCode ?? 0, answer.headers);
    if (meddling === 'pass') answer.pipe(outgoing);
    else if (meddling === 'fall silent') outgoing.flushHeaders();
    else cut(answer, outgoing, meddling);
  });
  passed.on('error', () => outgoing.destroy());
  outgoing.on('close', () => passed.destroy());
  incoming.pipe(passed);
}

function cut(
  answer: IncomingMessage,
  outgoing: ServerResponse,
  { cutAfterEvents, roughly }: { cutAfterEvents: number; roughly?: true },
): void {
  let left = cutAfterEvents;
  let rest = '';
  answer.on('data', (chunk: Buffer) => {
    const blocks = (rest + chunk.toString()).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      if (left <= 0) break;
      outgoing.write(`${block}\n\n`);
      if (block.includes('data:')) left--;
    }
    if (left > 0) return;
    answer.destroy();
    // In the middle of the next event.
    if (roughly) outgoing.write('id: 99\nevent: text.del', () => outgoing.destroy());
    else outgoing.end();
  });
  answer.on('end', () => outgoing.end());
}
