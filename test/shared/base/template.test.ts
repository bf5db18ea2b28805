import { expect, test } from 'vitest';
import { mentionsSecrets } from '../../../src/shared/base/template-syntax.ts';
import { renderTemplate, type TemplateCapabilities } from '../../../src/shared/base/template.ts';

const data = {
  input: 'a run',
  inputs: { topic: 'tides', list: ['a', 'b'], deep: { 'odd key': [1, { x: null }] }, tricky: '{{ inputs.topic }}' },
  run: { outputs: { draft: { text: 'So.' } } },
};

async function render(template: string, capabilities: TemplateCapabilities = {}): Promise<string> {
  return await renderTemplate(template, data, capabilities, new AbortController().signal);
}

test.each([
  ['nothing to replace', 'nothing to replace'],
  ['About {{ inputs.topic }}.', 'About tides.'],
  ['{{inputs.topic}}{{input}}', 'tidesa run'],
  ['{{ run.outputs.draft.text | upper }}', 'SO.'],
  ['{{ run.outputs.draft }}', '{"text":"So."}'],
  ['{{ inputs.list[1] }}', 'b'],
  ['{{ inputs.list | join(" + ") }}', 'a + b'],
  ['{{ inputs.deep["odd key"][0] }}', '1'],
  [`{{ inputs.none | default('it\\'s "}}"') }}`, `it's "}}"`],
  ['{{ inputs.none | trim | default("x") | upper }}', 'X'],
  ['{{ inputs.list | json(2) }}', '[\n  "a",\n  "b"\n]'],
  ['a } b { c }} d', 'a } b { c }} d'],
])('%s becomes %s', async (template, text) => {
  expect(await render(template)).toBe(text);
});

test('what a value contains is not expanded again', async () => {
  expect(await render('{{ inputs.tricky }}')).toBe('{{ inputs.topic }}');
});

test.each([
  ['{{ inputs.none }}', 'there is no such value'],
  ['{{ inputs.constructor }}', 'there is no such value'],
  ['{{ inputs.topic.length }}', 'there is no such value'],
  ['{{ inputs.topic', 'has no end'],
  ['{{ }}', 'needs a path'],
  ['{{ inputs. }}', 'needs a name after the point'],
  ['{{ inputs.list[0 }}', 'needs ]'],
  ['{{ inputs.topic | }}', 'needs the name of a filter'],
  ['{{ inputs.topic | shout }}', 'no filter shout'],
  ['{{ inputs.topic | join }}', 'join needs a list'],
  ['{{ inputs.topic + 1 }}', 'is not a path with filters'],
  ['{{ inputs.topic inputs }}', 'something behind its end'],
  ['{{ inputs.list | read_file }}', 'read_file needs a path'],
  ['{{ secrets.key }}', 'must not refer to {{ secrets.* }}'],
])('%s is refused: %s', async (template, message) => {
  await expect(render(template)).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining(message) as string,
  });
});

test('a file is read by a host that has files, and nowhere else', async () => {
  const template = '{{ inputs.topic | read_file | trim }}';
  expect(await render(template, { readFile: async (path) => ` of ${path} ` })).toBe('of tides');
  await expect(render(template)).rejects.toMatchObject({
    code: 'internal',
    details: { toolErrorKind: 'capability_blocked', reason: 'tool_unavailable' },
  });
});

test('values that make a prompt of more than a mebibyte are refused', async () => {
  const big = { a: 'x'.repeat(600_000) };
  const signal = new AbortController().signal;
  await expect(renderTemplate('{{ a }}{{ a }}', big, {}, signal)).rejects.toMatchObject({ code: 'validation' });
});

test.each([
  ['{{ secrets.key }}', true],
  ['text {{secrets["key"]}} text', true],
  ['{{ secrets }}', true],
  ['{{ inputs.a | default(secrets.key) }}', true],
  ['{{ inputs.secrets.key }}', false],
  ['{{ inputs.topic | default("secrets") }}', false],
  ['secrets.key without braces', false],
  ['{{ nosecrets.key }}', false],
])('does %s refer to secrets: %s', (text, expected) => {
  expect(mentionsSecrets(text)).toBe(expected);
});

test('looking for secrets in long texts comes to an end', () => {
  expect(mentionsSecrets('{{ secrets'.repeat(20_000))).toBe(false);
  expect(mentionsSecrets(`{{${' secrets'.repeat(20_000)}`)).toBe(false);
});
