import { RunError } from '../../shared/base/errors.ts';

/** Whose kind of name a model's name is, and the name without the prefix that says so. */
export interface NamedModel {
  readonly family: 'openai' | 'anthropic' | 'litellm' | 'ollama' | 'generic';
  readonly model: string;
  /** The family was written in front of the name. */
  readonly prefixed: boolean;
}

const prefixes: Readonly<Record<string, NamedModel['family']>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  claude: 'anthropic',
  litellm: 'litellm',
  ollama: 'ollama',
};

/** Reads the name of a model by what is usual in names. Throws `invalid_config` for a blank one. */
export function familyOf(name: string): NamedModel {
  const trimmed = name.trim();
  if (trimmed === '') throw new RunError('invalid_config', 'the name of a model must not be blank');
  const slash = trimmed.indexOf('/');
  const family = slash > 0 ? prefixes[trimmed.slice(0, slash)] : undefined;
  if (family !== undefined && slash < trimmed.length - 1)
    return { family, model: trimmed.slice(slash + 1), prefixed: true };
  if (trimmed.startsWith('gpt')) return { family: 'openai', model: trimmed, prefixed: false };
  if (trimmed.startsWith('claude')) return { family: 'anthropic', model: trimmed, prefixed: false };
  return { family: 'generic', model: trimmed, prefixed: false };
}
