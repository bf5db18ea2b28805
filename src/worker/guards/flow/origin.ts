import type { ArgumentRule, ToolFlow } from '../../../shared/contract/flow.ts';
import { matchesGlob } from '../policy.ts';
import type { Argument } from './arguments.ts';
import type { JudgedMemory } from './memory.ts';

/** The rule of an argument: that of its own path, or of the nearest object that it is in. */
export function ruleFor({ rulePath }: Argument, tool: ToolFlow | undefined): ArgumentRule | undefined {
  if (!tool) return undefined;
  for (let path = rulePath; path !== ''; path = path.slice(0, Math.max(0, path.lastIndexOf('.')))) {
    if (Object.hasOwn(tool.arguments, path)) return tool.arguments[path];
  }
  return undefined;
}

/**
 * Does the value come from where its rule says? It has to stand, as a whole, in a text of one of the origins, or match the
 * allow-list. An empty text has no origin.
 */
export function isWithin(rule: ArgumentRule, given: Argument['value'], memory: JudgedMemory): boolean {
  const text = String(given).trim();
  if (text === '' || rule.from.includes('any')) return true;
  if (rule.allow.some((pattern) => isAllowed(pattern, text))) return true;
  const value = { text, kind: typeof given === 'number' ? 'number' : 'whole' } as const;
  return rule.from.some((from) =>
    from === 'user'
      ? memory.isFrom(value, { kind: 'user' })
      : memory.isFrom(value, { kind: 'tool', name: from.slice('tool:'.length) }),
  );
}

/**
 * Of several addresses in one text each has to match. A star does not reach beyond the host of a link, nor beyond an `@` that
 * the pattern has itself: `*@shop.example` is no `eve@evil.example, anna@shop.example`.
 */
function isAllowed(pattern: string, text: string): boolean {
  const [wanted, given] = [pattern.toLowerCase(), text.toLowerCase()];
  const items = given.split(/[\s,;<>"]+/).filter((item) => item.includes('@') || item.includes('://'));
  if (items.length === 0) return globMatches(wanted, given);
  return items.every((item) => globMatches(wanted, item)) && (items.length > 1 || wraps(given, items[0] ?? ''));
}

/** Is there beside the one address nothing but a name and brackets? */
function wraps(text: string, item: string): boolean {
  return text === item || /^[^@:/]*<[^<>]*>$/.test(text) || text.replace(item, '').trim() === '';
}

function globMatches(pattern: string, text: string): boolean {
  const host = /^([^/]*:\/\/[^/?#]*)(.*)$/s;
  const [wanted, given] = [host.exec(pattern), host.exec(text)];
  if (wanted && given) {
    const [, wantedHost = '', wantedPath = ''] = wanted;
    const [, givenHost = '', givenPath = ''] = given;
    const isAnyPath = wantedHost.endsWith('*') && wantedPath === '';
    if (givenHost.includes('@') !== wantedHost.includes('@') || /[\\]/.test(givenHost)) return false;
    return (
      glob(wantedHost, givenHost) &&
      (isAnyPath || glob(wantedPath, givenPath) || (wantedPath === '' && givenPath === '/'))
    );
  }
  const [wantedAts, givenAts] = [pattern.split('@').length, text.split('@').length];
  if (pattern.includes('@') && wantedAts !== givenAts) return false;
  return glob(pattern, text);
}

/** With `*` alone: a question mark stands for itself. */
function glob(pattern: string, text: string): boolean {
  const literal = (part: string) => part.replaceAll('?', '\u0000');
  return matchesGlob(literal(pattern), literal(text));
}
