import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { createIterableBackend } from '../../../src/worker/llm/backends/iterable.ts';
import { modelFamilyOf, createProviders, withResolver } from '../../../src/worker/llm/backends/providers.ts';
import { scratchFile } from './scratch-file.ts';

test.each([
  ['openai/gpt-5.2', 'openai', 'gpt-5.2'],
  ['anthropic/claude-opus-5', 'anthropic', 'claude-opus-5'],
  ['claude/opus-5', 'anthropic', 'opus-5'],
  ['litellm/mixtral', 'litellm', 'mixtral'],
  ['litellm/openai/gpt-5', 'litellm', 'openai/gpt-5'],
  ['ollama/llama4:8b', 'ollama', 'llama4:8b'],
  ['gpt-5.2-mini', 'openai', 'gpt-5.2-mini'],
  ['claude-sonnet-5', 'anthropic', 'claude-sonnet-5'],
  [' gpt-5 ', 'openai', 'gpt-5'],
  ['mistral-large', 'generic', 'mistral-large'],
  ['acme/large', 'generic', 'acme/large'],
  ['my-gpt', 'generic', 'my-gpt'],
  ['openai/', 'generic', 'openai/'],
  ['/x', 'generic', '/x'],
])('%j is a name of %s for %s', (name, family, model) => {
  expect(modelFamilyOf(name)).toMatchObject({ family, model });
});

test.each(['', '  '])('a blank name %j is a mistake in the configuration', (name) => {
  expect(() => modelFamilyOf(name)).toThrow(expect.objectContaining({ code: 'invalid_config' }));
});

const entry = (id: string) => `- { id: ${id}, kind: openai, baseUrl: "http://127.0.0.1:1/v1" }\n`;

function providersWith(ids: readonly string[], settings: Record<string, string> = {}) {
  const path = scratchFile('providers.yaml', ids.map(entry).join(''));
  return createProviders(
    parseConfig({
      REDIS_URL: 'redis://127.0.0.1:1',
      ...(ids.length > 0 && { MILLRACE_PROVIDERS: path }),
      ...settings,
    }),
    () => undefined,
  );
}

describe('who serves a name', () => {
  const found = (providers: ReturnType<typeof providersWith>, name: string, provider?: string) => {
    const served = providers.providerFor(name, provider);
    return served && [served.provider.id, served.model];
  };

  test.each([
    ['gpt-5.2', ['openai', 'gpt-5.2']],
    ['openai/gpt-5.2', ['openai', 'gpt-5.2']],
    ['claude-sonnet-5', ['anthropic', 'claude-sonnet-5']],
    ['claude/sonnet-5', ['anthropic', 'sonnet-5']],
    ['anthropic/sonnet-5', ['anthropic', 'sonnet-5']],
    ['ollama/llama4', ['ollama', 'llama4']],
    ['acme/large', ['acme', 'large']],
    ['acme/claude/x', ['acme', 'claude/x']],
    ['litellm/x', ['openai', 'litellm/x']],
    ['mistral', ['openai', 'mistral']],
    ['acme/', ['openai', 'acme/']],
  ])('with providers for several families, %s goes to %j', (name, expected) => {
    const providers = providersWith(['anthropic', 'ollama', 'acme'], { OPENAI_API_KEY: 'sk' });
    expect(found(providers, name)).toEqual(expected);
  });

  test.each(['gpt-5', 'claude-5', 'claude/5', 'openai/gpt-5', 'mistral'])(
    'with one provider, %s goes to it under its whole name',
    (name) => {
      expect(found(providersWith(['only']), name)).toEqual(['only', name]);
    },
  );

  test('a router in place of OpenAI sees the whole name', () => {
    const providers = providersWith([], { OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' });
    for (const name of ['openai/gpt-5', 'anthropic/claude-5', 'claude-5', 'ollama/llama4'])
      expect(found(providers, name)).toEqual(['openai', name]);
  });

  test('a provider that is named by its id comes before what the name looks like', () => {
    const providers = providersWith(['anthropic', 'acme'], { OPENAI_API_KEY: 'sk' });
    expect(found(providers, 'claude-5', 'acme')).toEqual(['acme', 'claude-5']);
    expect(found(providers, 'gpt-5', 'unknown')).toBeUndefined();
  });

  test('a resolver of the caller comes before everything else, and may pass', () => {
    const own = createIterableBackend(async function* () {}, { id: 'own' });
    const providers = withResolver(
      providersWith(['anthropic', 'acme'], { OPENAI_API_KEY: 'sk' }),
      (model, provider) => {
        if (model === 'mine') return { provider: own, model: 'real-name' };
        if (model === 'big') return { provider: 'acme', model: 'large' };
        return provider === 'old' ? { provider: 'anthropic', model } : undefined;
      },
    );
    expect(found(providers, 'mine')).toEqual(['own', 'real-name']);
    expect(found(providers, 'big')).toEqual(['acme', 'large']);
    expect(found(providers, 'x', 'old')).toEqual(['anthropic', 'x']);
    expect(found(providers, 'gpt-5')).toEqual(['openai', 'gpt-5']);
  });

  test('a resolver that throws is reported as such', () => {
    const providers = withResolver(providersWith(['acme']), () => {
      throw new Error('sk-secret');
    });
    expect(() => providers.providerFor('m')).toThrow(
      expect.objectContaining({ code: 'internal', message: 'resolveModel failed for model m' }),
    );
  });
});
