import { expect, test } from 'vitest';
import { afkResult } from '../../../src/shared/dialects/afk.ts';
import { createAgent, defineAgent, projectEvents } from '../../../src/worker/index.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { always } from '../../../src/testing/scripts.ts';
import { all } from '../../support/http.ts';

function agentThat(script: ModelScript) {
  const provider = createScriptedProvider(script);
  return createAgent(defineAgent({ id: 'support', model: 'gpt-5.2-mini' }), { provider, env: {} });
}

test('the events of an agent in this process can be written in a dialect', async () => {
  const written = await all(projectEvents(agentThat(always('It was sent.')).stream('Where is order 7?'), 'graphorin'));
  expect(written.map(({ type }) => type)).toEqual([
    'agent.start',
    'step.start',
    'text.delta',
    'text.delta',
    'text.delta',
    'text.complete',
    'step.end',
    'agent.end',
  ]);
});

test.each<[string, ModelScript, string]>([
  ['completed', always('It was sent.'), 'It was sent.'],
  ['failed', () => ({ error: { kind: 'bad_request' } }), ''],
])(
  'a run that ended as %s ends with its whole result, which is the one that a caller gets who waited',
  async (state, script, text) => {
    const stream = agentThat(script).stream('Where is order 7?');
    const last = (await all(projectEvents(stream, 'afk'))).at(-1);
    expect(last).toMatchObject({ type: 'completed', result: { state, final_text: text } });
    expect(last?.['result']).toEqual(afkResult(await stream.result));
  },
);

test('a run that is cancelled while its events are read ends as cancelled, without an error', async () => {
  const stop = new AbortController();
  const stream = agentThat(() => ({ text: 'and on and on and on', deltaMs: 5 })).stream('Go on.', {
    signal: stop.signal,
  });
  const types: string[] = [];
  for await (const { type } of projectEvents(stream, 'afk')) {
    types.push(type);
    stop.abort();
  }
  expect(types).not.toContain('error');
  expect(types.at(-1)).toBe('completed');
  expect((await stream.result).status).toBe('cancelled');
});
