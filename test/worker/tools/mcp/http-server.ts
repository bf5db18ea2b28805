import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

interface Asked {
  readonly http: string;
  readonly method: string;
  readonly headers: IncomingMessage['headers'];
}

type Message = { readonly id?: number; readonly method?: string; readonly params?: Record<string, unknown> };
/** Answers a call: true when it has done so itself. */
export type Habit = (message: Message, response: ServerResponse, request: IncomingMessage) => boolean | undefined;

/** An MCP server over HTTP, written by hand. */
export async function httpServer(habit: Habit = () => undefined) {
  const asked: Asked[] = [];
  let sessions = 0;
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const message = body === '' ? {} : (JSON.parse(body) as Message);
      asked.push({ http: request.method ?? '', method: message.method ?? '', headers: request.headers });
      if (habit(message, response, request)) return;
      const answer = (result: object, headers: Record<string, string> = {}) => {
        response.writeHead(200, { 'content-type': 'application/json', ...headers });
        response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
      };
      if (message.method === 'initialize')
        return answer(
          { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'http', version: '1' } },
          { 'mcp-session-id': `session-${++sessions}` },
        );
      if (message.method === 'tools/list')
        return answer({ tools: [{ name: 'echo', inputSchema: { type: 'object' } }] });
      if (message.method === 'tools/call')
        return answer({ content: [{ type: 'text', text: String(request.headers['mcp-session-id']) }] });
      if (message.id !== undefined) {
        response.writeHead(200, { 'content-type': 'application/json' });
        return response.end(
          JSON.stringify({ jsonrpc: '2.0', id: message.id, error: { code: -32_601, message: 'no such method' } }),
        );
      }
      response.writeHead(request.method === 'POST' ? 202 : 405).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const count = (method: string) => asked.filter((one) => one.method === method || one.http === method).length;
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, asked, count };
}
