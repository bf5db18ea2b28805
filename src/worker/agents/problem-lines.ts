import { isMap, isScalar, isSeq, LineCounter, parseDocument, visit, type Node, type Scalar } from 'yaml';
import { messageOf, RunError } from '../../shared/base/errors.ts';

/** The line that a problem is about; undefined where that cannot be said. */
export type LineOf = (problem: string) => number | undefined;

/** A problem as it is shown: `support.yaml:3: there is no tool lookup_ordr`. */
export function placed(file: string, lineOf: LineOf | undefined, problem: string): string {
  const line = lineOf?.(problem);
  return `${file}${line === undefined ? '' : `:${line}`}: ${problem}`;
}

/** Every problem that was thrown together. */
export function problemsIn(error: unknown): readonly string[] {
  if (error instanceof RunError && Array.isArray(error.details)) return error.details.map(String);
  return [messageOf(error)];
}

/** What is wrong with the syntax of a YAML text, without the lines, which {@link linesInYaml} knows. */
export function syntaxProblems(text: string): readonly string[] {
  return parseDocument(text, { prettyErrors: false }).errors.map(({ message }) => message);
}

/** The lines of a YAML text: of what its syntax has wrong, of fields by their path, and of names that a problem quotes. */
export function linesInYaml(text: string): LineOf {
  const counter = new LineCounter();
  const { errors, contents } = parseDocument(text, { prettyErrors: false, lineCounter: counter });
  const lineAt = (offset: number | undefined) => (offset === undefined ? undefined : counter.linePos(offset).line);
  return (problem) => {
    const broken = errors.find(({ message }) => message === problem);
    if (broken) return lineAt(broken.pos[0]);
    const [path = fieldOfName(problem)] = /^\S+(?=: )/.exec(problem) ?? [];
    const field = nodeAt(contents, path.split('.'));
    const name = scalarNamed(field?.value ?? contents, problem, field !== undefined);
    return lineAt((name ?? field?.key ?? field?.value)?.range?.[0]);
  };
}

/** The field whose names a problem is about that begins with `there is no …`. */
function fieldOfName(problem: string): string {
  const [, kind] = /^there is no (tool|skill) /.exec(problem) ?? [];
  return kind === undefined ? '' : `${kind}s`;
}

interface Found {
  readonly key: Node | undefined;
  readonly value: Node | undefined;
}

/** The deepest node that the path leads to; undefined when it does not even begin there. */
function nodeAt(root: Node | null, path: readonly string[]): Found | undefined {
  let found: Found | undefined;
  let at: unknown = root;
  for (const segment of path) {
    if (isMap(at)) {
      const pair = at.items.find(({ key }) => isScalar(key) && String(key.value) === segment);
      if (!pair) return found;
      found = { key: pair.key as Node, value: (pair.value as Node | null) ?? undefined };
    } else if (isSeq(at) && at.items[Number(segment)]) {
      found = { key: undefined, value: at.items[Number(segment)] as Node };
    } else return found;
    at = found.value;
  }
  return found;
}

/**
 * The key or value that the problem names: in quotes, or as a word of what it says before it lists what there is. In a whole file a
 * plain word may stand anywhere, so only one that looks like a name counts there.
 */
function scalarNamed(root: Node | null | undefined, problem: string, isField: boolean): Scalar | undefined {
  const [said = ''] = problem.replace(/^\S+: /, '').split('; ');
  const words = new Set(said.split(/[\s,]+|:\s/));
  let named: Scalar | undefined;
  if (!root) return undefined;
  visit(root, {
    Scalar(_, scalar) {
      const text = String(scalar.value);
      const isNamed = said.includes(`"${text}"`) || ((isField || /\W|_|\d/.test(text)) && words.has(text));
      if (text === '' || !isNamed) return undefined;
      named = scalar;
      return visit.BREAK;
    },
  });
  return named;
}

/** The line of a module in which an error was thrown, or that Node could not read. */
export function linesInModule(error: unknown, path: string): LineOf {
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  const at = stack.indexOf(`${path}:`);
  const line = at < 0 ? undefined : /^\d+/.exec(stack.slice(at + path.length + 1))?.[0];
  return () => (line === undefined ? undefined : Number(line));
}
