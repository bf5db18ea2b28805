import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createAgent, defineAgent, defineTool } from '../src/worker/index.ts';
import { docsPage, pageFiles } from './support/docs-page.ts';
import {
  data,
  delta,
  finish,
  startRawProvider,
  status,
  stream,
  type RawRequest,
  type Reply,
} from './support/raw-provider.ts';

const page = docsPage('models-of-other-vendors.md');

/** How a server answers: calls of a tool at first, a text once it has their results. */
interface Vendor {
  readonly file: string;
  readonly model: string;
  readonly path: string;
  readonly replies: readonly Reply[];
}

const done = 'data: [DONE]\n\n';
const used = { prompt_tokens: 50, completion_tokens: 7, total_tokens: 57 };
const call = (fields: object, fn: object) => delta({ tool_calls: [{ type: 'function', ...fields, function: fn }] });
const text = stream(
  data(delta({ role: 'assistant', content: 'Both have shipped.' })),
  data({ ...(finish('stop') as object), usage: used }),
  done,
);

/** Refuses as Gemini does: in a list, when a call came back without its signature. */
const signedOnly: Reply = async (response, request) => {
  const calls = request.body.messages.flatMap((message: { tool_calls?: object[] }) => message.tool_calls ?? []);
  const isSigned = calls[0]?.extra_content?.google?.thought_signature === 'sig';
  if (isSigned) return await text(response, request);
  response.writeHead(400, { 'content-type': 'application/json' });
  response.end(
    '[{"error":{"code":400,"message":"Function call is missing a thought_signature","status":"INVALID_ARGUMENT"}}]',
  );
};

function textBody(code: number, body: string): Reply {
  return (response) => {
    response.writeHead(code, { 'content-type': 'application/json' });
    response.end(body);
  };
}

const vendors: Record<string, Vendor> = {
  Anthropic: {
    file: 'providers-anthropic.yaml',
    model: 'anthropic/claude-sonnet-5',
    path: '/v1/chat/completions',
    replies: [
      status(529, { type: 'overloaded_error', message: 'Overloaded' }),
      stream(
        data(delta({ role: 'assistant', content: '' })),
        data(call({ index: 0, id: 'toolu_1' }, { name: 'lookup_order', arguments: '' })),
        data(call({ index: 0 }, { arguments: '{"order":' })),
        data(call({ index: 0 }, { arguments: '"7"}' })),
        data(call({ index: 1, id: 'toolu_2' }, { name: 'lookup_order', arguments: '{"order":"8"}' })),
        data(finish('tool_calls')),
        data({ choices: [], usage: used }),
        done,
      ),
      text,
    ],
  },
  Gemini: {
    file: 'providers-gemini.yaml',
    model: 'gemini/gemini-3.5-flash',
    path: '/v1/chat/completions',
    replies: [
      textBody(429, '[{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}]'),
      stream(
        data(
          call(
            { index: 0, id: '', extra_content: { google: { thought_signature: 'sig' } } },
            { name: 'lookup_order', arguments: '{"order":"7"}' },
          ),
        ),
        data(call({ index: 0, id: '' }, { name: 'lookup_order', arguments: '{"order":"8"}' })),
        data({ ...(finish('stop') as object), usage: used }),
        done,
      ),
      signedOnly,
    ],
  },
  Ollama: {
    file: 'providers-local.yaml',
    model: 'local/qwen3',
    path: '/v1/chat/completions',
    replies: [
      stream(
        data(delta({ role: 'assistant', content: '', reasoning: 'Two orders.' })),
        data(call({ index: 0, id: 'call_a' }, { name: 'lookup_order', arguments: '{"order":"7"}' })),
        data(call({ index: 0, id: 'call_b' }, { name: 'lookup_order', arguments: '{"order":"8"}' })),
        data(finish('tool_calls')),
        data({ choices: [], usage: used }),
        done,
      ),
      text,
    ],
  },
  vLLM: {
    file: 'providers-local.yaml',
    model: 'local/qwen3',
    path: '/v1/chat/completions',
    replies: [
      stream(
        data({ ...(delta({ role: 'assistant', content: '' }) as object), usage: null }),
        data(delta({ reasoning_content: 'Two orders.' })),
        data(call({ index: 0, id: 'chatcmpl-tool-1' }, { name: 'lookup_order' })),
        data(call({ index: 0 }, { arguments: '{"order":"7"}' })),
        data(call({ index: 1, id: 'chatcmpl-tool-2' }, { name: 'lookup_order' })),
        data(call({ index: 1 }, { arguments: '{"order":"8"}' })),
        data(delta({ content: '' })),
        data(finish('stop')),
        data({ choices: [], usage: used }),
        done,
      ),
      text,
    ],
  },
  'llama.cpp': {
    file: 'providers-local.yaml',
    model: 'local/qwen3',
    path: '/v1/chat/completions',
    replies: [
      textBody(503, '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'),
      stream(
        data(delta({ role: 'assistant', content: null })),
        data(call({ index: 0, id: 'a1' }, { name: 'lookup_order', arguments: '{' })),
        data(call({ index: 0 }, { arguments: '"order":"7"}' })),
        data(call({ index: 1, id: 'a2' }, { name: 'lookup_order', arguments: '{"order":"8"}' })),
        data({ ...(finish('tool_calls') as object), usage: used, timings: { predicted_ms: 1 } }),
        done,
      ),
      text,
    ],
  },
};

describe.each(Object.entries(vendors))('%s', (_, { file, model, path, replies }) => {
  test('makes two calls of a tool and answers, with the provider file of the page', async () => {
    await using server = await startRawProvider(replies);
    const { folder } = pageFiles(page);
    const at = join(folder, file);
    writeFileSync(at, readFileSync(at, 'utf8').replace(/baseUrl: .*/, `baseUrl: ${server.url}`));
    const asked: string[] = [];
    const lookupOrder = defineTool({
      name: 'lookup_order',
      description: 'Finds an order by its number.',
      inputSchema: z.object({ order: z.string() }),
      effect: 'read',
      execute({ order }) {
        asked.push(order);
        return 'shipped';
      },
    });
    const env = {
      MILLRACE_PROVIDERS: at,
      LLM_ALLOWED_HOSTS: new URL(server.url).host,
      ANTHROPIC_API_KEY: 'sk-ant-a-key',
      GEMINI_API_KEY: 'a-gemini-key',
    };
    const agent = createAgent(defineAgent({ id: 'support', model, tools: [lookupOrder] }), { env });
    const result = await agent.run('Where are 7 and 8?');
    expect(result).toMatchObject({ status: 'completed', text: 'Both have shipped.', usage: { output: 14 } });
    expect(asked).toEqual(['7', '8']);
    expect(server.requests.map((request: RawRequest) => request.path)).toEqual(replies.map(() => path));
  });
});

test.each([
  ['a text alone', '{"error":"model not found"}'],
  ['no wrapper', '{"object":"error","message":"model not found","type":"NotFoundError","code":404}'],
  ['a list', '[{"error":{"code":404,"message":"model not found"}}]'],
])('an error as %s ends the run with its words', async (_, body) => {
  await using server = await startRawProvider(textBody(404, body));
  const env = { OPENAI_BASE_URL: server.url, LLM_ALLOWED_HOSTS: new URL(server.url).host };
  const agent = createAgent(defineAgent({ id: 'a', model: 'm' }), { env });
  const result = await agent.run('x');
  expect(result.status).toBe('failed');
  expect(JSON.stringify(result)).toContain('model not found');
});
