import type { RunRequestInput } from '../../../../../shared/contract/run.ts';

/** What the form of a new run holds, as it is typed. */
export interface RequestForm {
  readonly agent: string;
  readonly input: string;
  readonly thread: string;
  readonly model: string;
  readonly maxSteps: string;
  readonly maxCostUsd: string;
  readonly deadlineS: string;
  readonly queue: string;
  readonly priority: string;
  /** One `key=value` a line. */
  readonly metadata: string;
  /** Everything else of a request, as JSON. */
  readonly more: string;
}

export const emptyForm: RequestForm = {
  agent: '',
  input: '',
  thread: '',
  model: '',
  maxSteps: '',
  maxCostUsd: '',
  deadlineS: '',
  queue: '',
  priority: '',
  metadata: '',
  more: '',
};

const microcentsPerUsd = 100_000_000;

/** A request in the fields of the form; what has no field of its own is in `more`. */
export function formOf(request: RunRequestInput): RequestForm {
  const { agent, input, thread, overrides, limits, budget, deadlineMs, queue, priority, metadata, ...rest } = request;
  const { model, ...otherOverrides } = overrides ?? {};
  const { maxSteps, ...otherLimits } = limits ?? {};
  const { maxCostMicrocents, maxCostUsd, ...otherBudget } = budget ?? {};
  const usd = maxCostUsd ?? (maxCostMicrocents === undefined ? undefined : maxCostMicrocents / microcentsPerUsd);
  const isText = typeof input === 'string';
  const more = {
    ...rest,
    ...(isText ? {} : { input }),
    ...ifAny('overrides', otherOverrides),
    ...ifAny('limits', otherLimits),
    // A way to exceed a cap says nothing without one.
    ...(usd === undefined ? {} : ifAny('budget', otherBudget)),
  };
  return {
    agent,
    input: isText ? input : '',
    thread: thread ?? '',
    model: model ?? '',
    maxSteps: shown(maxSteps),
    maxCostUsd: shown(usd),
    deadlineS: deadlineMs === undefined ? '' : String(deadlineMs / 1_000),
    queue: queue ?? '',
    priority: shown(priority),
    metadata: Object.entries(metadata ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join('\n'),
    more: Object.keys(more).length === 0 ? '' : JSON.stringify(more, null, 2),
  };
}

export type FieldProblems = Partial<Record<keyof RequestForm, string>>;
export type ReadForm =
  | { readonly kind: 'request'; readonly request: RunRequestInput }
  | { readonly kind: 'problems'; readonly problems: FieldProblems };

/** The request that a form asks for, or what is wrong with each field. The producer checks the rest. */
export function readForm(form: RequestForm): ReadForm {
  const problems: { -readonly [Field in keyof RequestForm]?: string } = {};
  const number = (field: keyof RequestForm, isGood: (value: number) => boolean, mustBe: string) => {
    const text = form[field].trim();
    if (text === '') return undefined;
    const value = Number(text);
    if (Number.isFinite(value) && isGood(value)) return value;
    problems[field] = mustBe;
    return undefined;
  };
  const isCount = (value: number) => Number.isInteger(value) && value >= 1;
  const maxSteps = number('maxSteps', isCount, 'must be a whole number from 1');
  const maxCostUsd = number('maxCostUsd', (value) => value > 0, 'must be an amount above 0, as 0.05');
  const deadlineS = number('deadlineS', (value) => value > 0, 'must be a number of seconds above 0');
  const priority = number(
    'priority',
    (value) => Number.isInteger(value) && value >= 0,
    'must be a whole number from 0',
  );
  const metadata = metadataIn(form.metadata);
  if (typeof metadata === 'string') problems.metadata = metadata;
  const more = objectIn(form.more);
  if (typeof more === 'string') problems.more = more;
  const hasInput = form.input !== '' || (typeof more === 'object' && hasOwnInput(more));
  if (form.agent.trim() === '') problems.agent = 'choose an agent';
  if (!hasInput) problems.input = 'say what the agent is to do';
  if (Object.keys(problems).length > 0 || typeof more === 'string' || typeof metadata === 'string')
    return { kind: 'problems', problems };
  const fields = {
    ...more,
    agent: form.agent.trim(),
    ...(form.input === '' ? {} : { input: form.input }),
    ...ifText('thread', form.thread),
    ...ifText('queue', form.queue),
    ...merged(more, 'overrides', ifText('model', form.model)),
    ...merged(more, 'limits', maxSteps === undefined ? {} : { maxSteps }),
    ...merged(more, 'budget', maxCostUsd === undefined ? {} : { maxCostUsd }),
    ...(deadlineS === undefined ? {} : { deadlineMs: Math.round(deadlineS * 1_000) }),
    ...(priority === undefined ? {} : { priority }),
    ...ifAny('metadata', metadata),
  };
  return { kind: 'request', request: fields as RunRequestInput };
}

function hasOwnInput(more: object): boolean {
  return 'input' in more || 'fanOut' in more || 'evaluate' in more || 'taskRun' in more || 'node' in more;
}

/** The pairs, or what is wrong with them. */
function metadataIn(text: string): Readonly<Record<string, string>> | string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const wrong = lines.find((line) => line.indexOf('=') < 1);
  if (wrong !== undefined) return `write key=value, not ${wrong.trim().slice(0, 60)}`;
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf('=')).trim(), line.slice(line.indexOf('=') + 1).trim()]),
  );
}

function objectIn(text: string): object | string {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : 'must be a JSON object';
  } catch (error) {
    return `is no JSON: ${(error as Error).message}`;
  }
}

function merged(more: object, field: string, own: object): object {
  const before = (more as Readonly<Record<string, unknown>>)[field];
  const all = { ...(typeof before === 'object' ? before : {}), ...own };
  return Object.keys(all).length === 0 ? {} : { [field]: all };
}

function ifText(field: string, text: string): Readonly<Record<string, string>> {
  return text.trim() === '' ? {} : { [field]: text.trim() };
}

function ifAny(field: string, value: object): object {
  return Object.keys(value).length === 0 ? {} : { [field]: value };
}

function shown(value: number | undefined): string {
  return value === undefined ? '' : String(value);
}
