import { RunError } from './errors.ts';

export type Literal = string | number;

export interface Filter {
  readonly name: string;
  readonly args: readonly Literal[];
}

/** A piece of a template: text as it stands, or a value to look up and change. */
export type TemplatePart =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'value';
      readonly source: string;
      readonly path: readonly Literal[];
      readonly filters: readonly Filter[];
    };

const maxExpressions = 1_000;

/**
 * An expression `{{ … }}` that refers to `secrets`. Prompts never carry credentials, so it is refused wherever it stands,
 * also in texts that are not templates.
 */
export function mentionsSecrets(text: string): boolean {
  return /\{\{[^{}]*?(?<![\w.$"'])secrets\s*(?:[.[|]|\}\})/.test(text);
}

/**
 * Reads a template. An expression is a path and filters, `{{ inputs.items[0]["a b"] | trim | default("none") }}`, within
 * one pair of double braces. Throws `validation` naming the expression that cannot be read.
 */
export function parseTemplate(text: string): readonly TemplatePart[] {
  const parts: TemplatePart[] = [];
  let at = 0;
  for (;;) {
    const open = text.indexOf('{{', at);
    if (open > at || open === -1) parts.push({ kind: 'text', text: text.slice(at, open === -1 ? undefined : open) });
    if (open === -1) return parts;
    const close = closingOf(text, open + 2);
    if (close === -1) throw unreadable(text.slice(open, open + 80), 'has no end');
    parts.push(parseExpression(text.slice(open, close + 2)));
    if (parts.length > maxExpressions * 2)
      throw new RunError('validation', `a template has over ${maxExpressions} expressions`);
    at = close + 2;
  }
}

/** Where `}}` stands outside of quotes. */
function closingOf(text: string, from: number): number {
  let quote = '';
  for (let at = from; at < text.length; at++) {
    const letter = text[at] as string;
    if (quote !== '') {
      if (letter === '\\') at++;
      else if (letter === quote) quote = '';
    } else if (letter === '"' || letter === "'") quote = letter;
    else if (letter === '}' && text[at + 1] === '}') return at;
    else if (letter === '{' && text[at + 1] === '{') return -1;
  }
  return -1;
}

const token = /\s*(?:([A-Za-z_][\w-]*)|(-?\d+(?:\.\d+)?)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|([.[\]|(),]))/y;
const kinds = ['name', 'number', 'string', 'sign'] as const;

interface Token {
  readonly kind: (typeof kinds)[number];
  readonly text: string;
}

function parseExpression(source: string): TemplatePart {
  const tokens = new Tokens(source);
  const path: Literal[] = [tokens.name('a path like inputs.topic')];
  for (;;) {
    if (tokens.skip('.')) path.push(tokens.name('a name after the point'));
    else if (tokens.skip('[')) {
      path.push(tokens.literal());
      tokens.sign(']');
    } else break;
  }
  const filters: Filter[] = [];
  while (tokens.skip('|')) filters.push({ name: tokens.name('the name of a filter'), args: argumentsOf(tokens) });
  tokens.end();
  return { kind: 'value', source, path, filters };
}

function argumentsOf(tokens: Tokens): Literal[] {
  const args: Literal[] = [];
  if (!tokens.skip('(') || tokens.skip(')')) return args;
  do args.push(tokens.literal());
  while (tokens.skip(','));
  tokens.sign(')');
  return args;
}

class Tokens {
  readonly #source: string;
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(source: string) {
    this.#source = source;
    this.#tokens = tokensOf(source);
  }

  /** Goes on behind this sign when it is next. */
  skip(sign: string): boolean {
    const next = this.#tokens[this.#at];
    if (next?.kind !== 'sign' || next.text !== sign) return false;
    this.#at++;
    return true;
  }

  sign(sign: string): void {
    if (!this.skip(sign)) throw unreadable(this.#source, `needs ${sign}`);
  }

  name(what: string): string {
    return this.#take(['name'], what).text;
  }

  literal(): Literal {
    const { kind, text } = this.#take(['number', 'string'], 'a number or a text in quotes');
    return kind === 'number' ? Number(text) : text.slice(1, -1).replaceAll(/\\(.)/gs, '$1');
  }

  end(): void {
    if (this.#at < this.#tokens.length) throw unreadable(this.#source, 'has something behind its end');
  }

  #take(wanted: readonly Token['kind'][], what: string): Token {
    const next = this.#tokens[this.#at++];
    if (!next || !wanted.includes(next.kind)) throw unreadable(this.#source, `needs ${what}`);
    return next;
  }
}

function tokensOf(source: string): readonly Token[] {
  const inner = source.slice(2, -2).trimEnd();
  const tokens: Token[] = [];
  token.lastIndex = 0;
  while (token.lastIndex < inner.length) {
    const found = token.exec(inner)?.slice(1) ?? [];
    const index = found.findIndex((text) => text !== undefined);
    const kind = kinds[index];
    if (!kind) throw unreadable(source, 'is not a path with filters');
    tokens.push({ kind, text: found[index] as string });
  }
  return tokens;
}

function unreadable(source: string, why: string): RunError {
  return new RunError('validation', `the expression ${source} of the template ${why}`);
}
