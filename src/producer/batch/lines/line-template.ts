import { RunError } from '../../../shared/base/errors.ts';
import { thereIsNo } from '../../../shared/base/nearest.ts';
import { isPlainFilter, renderParts } from '../../../shared/base/template.ts';
import { mentionsSecrets, parseTemplate, type TemplatePart } from '../../../shared/base/template-syntax.ts';

/** What a template calls the line as a whole: for columns whose names are no words, `{{ row["Order no."] }}`. */
const wholeLine = 'row';

/** Makes the input of a line from its fields. */
export interface LineTemplate {
  /** The fields that a line must have, beside those with a default. */
  readonly needs: readonly string[];
  /** Throws `validation` for a line without a field that it needs, and for an input that is too long. */
  render(fields: Readonly<Record<string, unknown>>): Promise<string>;
}

/** Reads an `inputTemplate`. Throws `validation` for one that cannot be read, or gives each line the same input. */
export function lineTemplate(text: string): LineTemplate {
  const refuse = (problem: string) => new RunError('validation', `inputTemplate: ${problem}`);
  if (mentionsSecrets(text)) throw refuse('must not refer to {{ secrets.* }}');
  const parts = parseTemplate(text);
  const values = parts.filter((part) => part.kind === 'value');
  if (values.length === 0)
    throw refuse('refers to no field, so that all lines would be the same; write {{ name }} where a field belongs');
  for (const { filters, source } of values) {
    const unknown = filters.find(({ name }) => !isPlainFilter(name));
    if (unknown) throw refuse(`${source}: there is no filter ${unknown.name} here`);
  }
  const none = new AbortController().signal;
  return {
    needs: [...new Set(values.filter((value) => !hasDefault(value)).flatMap(fieldOf))],
    render: async (fields) => await renderParts(parts, { ...fields, [wholeLine]: fields }, {}, none),
  };
}

type ValuePart = Extract<TemplatePart, { kind: 'value' }>;

function hasDefault({ filters }: ValuePart): boolean {
  return filters.some(({ name }) => name === 'default');
}

/** The field of the line that an expression begins with; none for the line as a whole. */
function fieldOf({ path }: ValuePart): readonly string[] {
  const [first, second] = path;
  if (first !== wholeLine) return [String(first)];
  return second === undefined ? [] : [String(second)];
}

/** Throws `validation` for a field that a template needs and that is not among those there are: a typing error, most often. */
export function checkFields({ needs }: LineTemplate, what: 'column' | 'field', known: ReadonlySet<string>): void {
  const missing = needs.find((name) => !known.has(name));
  if (missing !== undefined) throw new RunError('validation', `inputTemplate: ${thereIsNo(what, missing, known)}`);
}
