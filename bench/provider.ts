import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { deltas, model, pacedDelayMs, toolName } from './workload.ts';

// A process of its own, so that its cost counts in no system. The base path says whether it streams in a burst or paced.

const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model, choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const usage = (input: number, output: number) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model, choices: [], usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output } })}\n\n`;
const done = 'data: [DONE]\n\n';

const call = (part: object) => chunk({ tool_calls: [{ index: 0, ...part }] });
const toolAnswer = [
  chunk({ role: 'assistant', content: '' }),
  call({ id: 'call_1', type: 'function', function: { name: toolName, arguments: '' } }),
  call({ function: { arguments: '{"order":' } }),
  call({ function: { arguments: '"7"}' } }),
  chunk({}, 'tool_calls'),
  usage(60, 12),
  done,
];
const words = Array.from({ length: deltas }, (_, i) =>
  chunk({ content: `${['order', 'seven', 'was', 'sent'][i % 4]} ` }),
);
const textAnswer = [chunk({ role: 'assistant', content: '' }), ...words, chunk({}, 'stop'), usage(90, deltas), done];

async function stream(response: ServerResponse, chunks: readonly string[], delayMs: number): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const text of chunks) {
    response.write(text);
    if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
  }
  response.end();
}

const server = createServer((request, response) => {
  let body = '';
  request.on('data', (part: Buffer) => (body += part.toString()));
  request.on('end', () => {
    const answer = body.includes('"role":"tool"') ? textAnswer : toolAnswer;
    void stream(response, answer, request.url?.startsWith('/paced') ? pacedDelayMs : 0);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('disconnect', () => process.exit(0));
