import { isRecord, jsonText } from './json.ts';
import { createHash } from 'node:crypto';
import { createContext, Script } from 'node:vm';
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';

export type SchemaDialect = 'draft-07' | '2020-12';

/** A JSON Schema of arguments. */
export interface ArgumentSchema {
  /** Without patterns that {@link linearRegExp} does not take. */
  readonly checked: Readonly<Record<string, unknown>>;
  readonly dialect: SchemaDialect;
}

export type ArgumentProblems =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly string[] };

const compileMs = 1_000;
const checkMs = 250;
const maxProblems = 10;
const maxKept = 500;

/**
 * Runs the patterns of schemas that strangers wrote, in time that grows with the text and not with the pattern's tricks.
 * Of the shape that Ajv asks for.
 */
export const linearRegExp = Object.assign(
  (pattern: string): { test(text: string): boolean } => {
    const compiled = RE2JS.compile(pattern);
    return { test: (text) => compiled.matcher(text).find() };
  },
  { code: 'linearRegExp' },
);

const options: Options = {
  strict: false,
  allErrors: true,
  logger: false,
  // Checked before, once for all.
  meta: false,
  validateSchema: false,
  validateFormats: false,
  inlineRefs: false,
  code: { regExp: linearRegExp },
};

/**
 * Checks arguments against the schemas of strangers, so that a model or a person learns of a mistake at once. The tool has the
 * last word: where a schema takes too long, which it can whatever its size, the arguments go to the tool unchecked, from then
 * on always. Schemas are compiled when they are first needed; the last 500 are kept.
 */
export class ArgumentChecks {
  readonly #known = new Map<string, ValidateFunction | 'too_slow'>();

  /** `onTooSlow` is called once, when a schema turns out to be too slow. */
  check(schema: ArgumentSchema, args: unknown, onTooSlow: () => void): ArgumentProblems {
    if (!isRecord(args)) return { ok: false, problems: ['arguments: must be an object'] };
    const key = createHash('sha256').update(schema.dialect).update(jsonText(schema.checked)).digest('base64');
    try {
      const validate = this.#known.get(key) ?? withDeadline(compileMs, () => compiled(schema));
      this.#keep(key, validate);
      if (validate === 'too_slow') return { ok: true, value: args };
      const isValid = withDeadline(checkMs, () => validate(args));
      return isValid ? { ok: true, value: args } : { ok: false, problems: problemsOf(validate.errors ?? []) };
    } catch {
      this.#keep(key, 'too_slow');
      onTooSlow();
      return { ok: true, value: args };
    }
  }

  #keep(key: string, validate: ValidateFunction | 'too_slow'): void {
    this.#known.delete(key);
    this.#known.set(key, validate);
    const oldest = this.#known.keys().next().value;
    if (this.#known.size > maxKept && oldest !== undefined) this.#known.delete(oldest);
  }
}

function compiled({ checked, dialect }: ArgumentSchema): ValidateFunction {
  return (dialect === 'draft-07' ? new Ajv(options) : new Ajv2020(options)).compile(checked);
}

const box: { work: (() => unknown) | undefined } = { work: undefined };
const context = createContext(box);
const start = new Script('work()');

/**
 * Runs our own code that works on the data of a stranger, and throws when it takes longer. The context is a stopwatch, the
 * only one that stops code which never yields; it keeps nothing apart.
 */
function withDeadline<T>(timeoutMs: number, work: () => T): T {
  box.work = work;
  try {
    return start.runInContext(context, { timeout: timeoutMs }) as T;
  } finally {
    box.work = undefined;
  }
}

function problemsOf(errors: readonly ErrorObject[]): string[] {
  const texts = errors.map(({ instancePath, keyword, message, params }) => {
    const path = instancePath.slice(1).replaceAll('/', '.') || 'arguments';
    const extra: unknown = params['additionalProperty'];
    if (keyword === 'false schema') return `${path}: must not be given`;
    return `${path}: ${message ?? 'is wrong'}${typeof extra === 'string' ? ` (${extra.slice(0, 64)})` : ''}`;
  });
  return [...new Set(texts)].slice(0, maxProblems);
}
