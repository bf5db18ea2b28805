import { withoutHidden } from '../../guards/folded-text.ts';
import { clip } from '../../../shared/base/text.ts';
import { cleanTexts } from './clean-texts.ts';
import { safeName } from '../names.ts';
import { maxListPages, maxToolDescriptionChars, maxTools } from './limits.ts';
import { boundSchema, type BoundSchema } from './schema.ts';

/** A tool as its server lists it, checked. */
export interface ListedTool {
  /** What the server calls it. */
  readonly name: string;
  /** The same for a model, alone in its list: 1 to 64 of A-Z a-z 0-9 _ - */
  readonly safeName: string;
  readonly description: string;
  readonly schema: BoundSchema;
  /** As the server sent it. */
  readonly given: Readonly<Record<string, unknown>>;
}

export interface ToolList {
  readonly tools: readonly ListedTool[];
  /** What is odd about some, for the log. A tool that is not fit for use is left out. */
  readonly problems: readonly string[];
}

const maxNameChars = 256;
const maxProblems = 20;

type Page = Readonly<Record<string, unknown>>;

/** Reads the whole list. Its order is the server's; the first of a name keeps it. */
export async function readTools(ask: (params: Record<string, unknown>) => Promise<Page>): Promise<ToolList> {
  const given: unknown[] = [];
  const problems: string[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < maxListPages && given.length <= maxTools; page++) {
    const { tools, nextCursor } = await ask(cursor === undefined ? {} : { cursor });
    if (Array.isArray(tools)) given.push(...tools.slice(0, maxTools + 1));
    if (typeof nextCursor !== 'string' || nextCursor === '' || nextCursor === cursor) break;
    cursor = nextCursor;
  }
  if (given.length > maxTools) problems.push(`only the first ${maxTools} of its tools are used`);
  const names = new Set<string>();
  // A name that is safe as it is belongs to its tool, wherever in the list a name comes that looks like it.
  const safeNames = new Set(
    given.map(nameOf).filter((name): name is string => name !== undefined && safeName(name) === name),
  );
  const tools: ListedTool[] = [];
  for (const one of given.slice(0, maxTools)) {
    const tool = listedTool(one, names, safeNames, problems);
    if (tool) tools.push(tool);
  }
  return { tools, problems: problems.slice(0, maxProblems) };
}

function listedTool(given: unknown, names: Set<string>, safeNames: Set<string>, problems: string[]) {
  const facts = (given ?? {}) as Record<string, unknown>;
  const { title, description, inputSchema } = facts;
  const name = nameOf(given);
  const leaveOut = (problem: string): undefined => void problems.push(problem);
  if (name === undefined) return leaveOut('a tool without a usable name is left out');
  if (names.has(name)) return leaveOut(`${name}: is there twice; the first one is used`);
  names.add(name);
  const bound = boundSchema(inputSchema);
  if (bound.kind === 'unfit') return leaveOut(`${name}: is left out, ${bound.problem}`);
  const { schema } = bound;
  if (schema.droppedPatterns > 0)
    problems.push(`${name}: ${schema.droppedPatterns} of its patterns are left to the server, RE2 does not take them`);
  const text = [description, title, name].find((one): one is string => typeof one === 'string' && one.trim() !== '');
  const shown = clip(withoutHidden(text ?? name), maxToolDescriptionChars);
  const clean = cleanTexts(name, shown, schema.parameters);
  if (!clean) return leaveOut(`${name}: is left out, one of its names looks like an order to the model`);
  const { description: cleanDescription, parameters, findings } = clean;
  if (findings.length > 0)
    problems.push(`${name}: what looks like orders to the model is taken out of its texts (${findings.join(', ')})`);
  const shownSchema = { ...schema, parameters };
  return {
    name,
    safeName: freeName(name, safeNames),
    description: cleanDescription,
    schema: shownSchema,
    given: facts,
  };
}

function nameOf(given: unknown): string | undefined {
  const { name } = (given ?? {}) as Record<string, unknown>;
  return typeof name === 'string' && name !== '' && name.length <= maxNameChars ? name : undefined;
}

function freeName(name: string, taken: Set<string>): string {
  const wanted = safeName(name);
  if (wanted === name) return name;
  let free = wanted;
  for (let number = 2; taken.has(free); number++) free = `${wanted.slice(0, 60)}_${number}`;
  taken.add(free);
  return free;
}
