import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { openaiForPython } from '../support/openai-python.ts';
import { planInput } from '../support/plan.ts';
import { withoutPython } from '../support/python.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });
const program = join(import.meta.dirname, '../fixtures/openai-python/main.py');
const why = withoutPython === undefined ? '' : ` (left out: ${withoutPython})`;

test.skipIf(withoutPython !== undefined)(`the Python client of OpenAI drives agents${why}`, async () => {
  const answers = ['It is on its way.', 'I am Kim.', 'Kim, as I said.', 'one two three four'];
  const plans = answers.map((text) => planInput({ text }));
  const { stdout } = await promisify(execFile)(openaiForPython(), [program, shared.world.url, ...plans], {
    timeout: 120_000,
  });
  expect(JSON.parse(stdout)).toEqual({
    models: expect.arrayContaining(['plain']),
    chat: ['It is on its way.', true, 'plain'],
    streamed: 'It is on its way.',
    chain: ['I am Kim.', 'Kim, as I said.', 'completed'],
    conversation: ['user', 'assistant'],
    resumed: [true, 'one two three four', 'response.completed'],
    refused: ['validation', 'n', 'invalid_request_error'],
    missing: 'not_found',
    helper: 'I am Kim.',
  });
});
