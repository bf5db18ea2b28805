import type { LlmProvider } from './provider.ts';

/** The same provider with another way to make a call. Nothing else of it is touched or shared out. */
export function wrapProvider(provider: LlmProvider, generate: LlmProvider['generate']): LlmProvider {
  const { id, capabilities, acceptsSensitivity, credential } = provider;
  return {
    id,
    capabilities,
    ...(acceptsSensitivity && { acceptsSensitivity }),
    ...(credential !== undefined && { credential }),
    ...(provider.secrets && { secrets: () => provider.secrets?.() ?? [] }),
    ...(provider.limitsOf && { limitsOf: (model: string) => provider.limitsOf?.(model) }),
    ...(provider.contextWindowOf && { contextWindowOf: (model: string) => provider.contextWindowOf?.(model) }),
    ...(provider.mediaOf && { mediaOf: (model: string) => provider.mediaOf?.(model) }),
    ...(provider.media && { media: provider.media }),
    generate,
  };
}
