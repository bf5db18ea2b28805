import type { ApprovalView } from '../../../../shared/contract/inbox/approvals.ts';
import type { CallView, StepView } from '../../../../shared/contract/archive/run-steps.ts';
import type { DecisionView } from '../../../../shared/contract/decisions.ts';
import type { FlowRule } from '../../../../shared/contract/flow.ts';

/** What an item asks for, in a few words. */
export function askedIn({ kind, mode, toolName, toolChange }: ApprovalView): string {
  const tool = toolName ?? 'a call';
  switch (kind) {
    case 'approval':
      if (toolChange) return `Call ${tool}, which its server has changed`;
      return mode === 'deferred' ? `Carry out ${tool}` : `Call ${tool}`;
    case 'user_input':
      return 'Answer a question';
    case 'unknown_outcome':
      return `Did ${tool} take effect?`;
    case 'budget':
      return 'Money is used up';
    default:
      throw new Error(`no such kind: ${String(kind satisfies never)}`);
  }
}

const kindNames: Readonly<Record<ApprovalView['kind'], string>> = {
  approval: 'approval',
  user_input: 'question',
  unknown_outcome: 'unknown outcome',
  budget: 'money',
};

export function kindName(kind: ApprovalView['kind']): string {
  return kindNames[kind];
}

const lineChars = 300;

/** Arguments in one line: `order: 7, amount: 24.9`. */
export function argumentsLine(args: unknown): string {
  const isNamed = typeof args === 'object' && args !== null && !Array.isArray(args);
  const text = isNamed
    ? Object.entries(args)
        .map(([name, value]) => `${name}: ${inLine(value)}`)
        .join(', ')
    : inLine(args);
  return beginningOfText(text);
}

function inLine(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

/** How a text begins, on one line. */
export function beginningOfText(text: string): string {
  const line = text
    .slice(0, 4 * lineChars)
    .replaceAll(/\s+/g, ' ')
    .trim();
  return line.length <= lineChars ? line : `${line.slice(0, lineChars)}…`;
}

/** What an item is about, in one line below its title. */
export function aboutItem(item: ApprovalView, money: (microcents: number) => string): string {
  if (item.kind === 'user_input') return beginningOfText(item.reason ?? '');
  if (item.kind !== 'budget') return argumentsLine(item.args ?? {});
  const { scope, name } = accountOf(item);
  const needed = neededIn(item);
  return `${scope} ${name}${needed === undefined ? '' : `, the next step needs ${money(needed)}`}`;
}

/** What the next step needs, of an item about money. */
export function neededIn({ args }: Pick<ApprovalView, 'args'>): number | undefined {
  const needed = args?.['neededMicrocents'];
  return typeof needed === 'number' ? needed : undefined;
}

const ruleNames: Readonly<Record<FlowRule, string>> = {
  'untrusted-to-sink': 'Repeats a passage of an untrusted text',
  'untrusted-value': 'Is a value that only an untrusted text brought',
  'argument-origin': 'Does not come from where its rule says',
  'after-untrusted': 'This tool is not to be called after an untrusted text was read',
  'lethal-trifecta': 'The run has seen untrusted text and secret data',
};

export function ruleName(rule: FlowRule): string {
  return ruleNames[rule];
}

/** The account that a run waits for: `tenant:default` is the tenant `default`. */
export function accountOf({ id = '' }: Pick<ApprovalView, 'id'>): { readonly scope: string; readonly name: string } {
  const at = id.indexOf(':');
  return { scope: id.slice(0, at), name: id.slice(at + 1) };
}

/** Why this session may not decide about an item; undefined: it may. */
export function hindrance(item: ApprovalView, may: (scope: 'approve' | 'admin') => boolean): string | undefined {
  if (!may('approve')) return 'Your key lacks the scope "approve": you see what waits, and others decide.';
  if (item.kind === 'budget' && accountOf(item).scope === 'tenant' && !may('admin'))
    return 'This is the money of the whole tenant: deciding about it needs a key with the scope "admin". You may still reject.';
  return undefined;
}

/** What became of a call that people were asked about, in a sentence. */
export function decisionWords({ granted, answered, by, edited, reason }: DecisionView): string {
  if (reason === 'expired') return 'No one decided in time: it counts as denied.';
  const what = answered ? 'Answered' : granted ? 'Granted' : 'Denied';
  const who = by.length > 0 ? ` by ${by.join(' and ')}` : ' without a name';
  return `${what}${who}${edited ? ', with other arguments' : ''}${reason ? `: “${reason}”` : ''}.`;
}

/** The call of that id: models use ids again, so the last one that was decided, or the last. */
export function decidedCallIn(steps: readonly StepView[], toolCallId: string): CallView | undefined {
  const named = steps.flatMap(({ calls }) => calls.filter((call) => call.toolCallId === toolCallId));
  return named.findLast(({ decision }) => decision !== undefined) ?? named.at(-1);
}

export interface Line {
  readonly sign: ' ' | '-' | '+';
  readonly text: string;
}

const maxCompared = 400;

/** Two texts line by line: what both have, what went, what came. Long texts are shown one after the other. */
export function linesBetween(before: string, after: string): readonly Line[] {
  const [a, b] = [linesOf(before), linesOf(after)];
  if (a.length > maxCompared || b.length > maxCompared)
    return [...a.map((text) => ({ sign: '-' as const, text })), ...b.map((text) => ({ sign: '+' as const, text }))];
  const common = commonLengths(a, b);
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const [was, is] = [a[i], b[j]];
    if (was !== undefined && was === is) {
      lines.push({ sign: ' ', text: was });
      i++;
      j++;
    } else if (was !== undefined && (is === undefined || at(common, i + 1, j) >= at(common, i, j + 1))) {
      lines.push({ sign: '-', text: was });
      i++;
    } else if (is !== undefined) {
      lines.push({ sign: '+', text: is });
      j++;
    }
  }
  return lines;
}

function linesOf(text: string): readonly string[] {
  return text === '' ? [] : text.split('\n');
}

/** How many lines the ends of both texts have in common, from each pair of lines on. */
function commonLengths(a: readonly string[], b: readonly string[]): readonly (readonly number[])[] {
  const lengths = Array.from({ length: a.length + 1 }, () => Array.from({ length: b.length + 1 }, () => 0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i]![j] =
        a[i] === b[j] ? at(lengths, i + 1, j + 1) + 1 : Math.max(at(lengths, i + 1, j), at(lengths, i, j + 1));
  return lengths;
}

function at(lengths: readonly (readonly number[])[], i: number, j: number): number {
  return lengths[i]?.[j] ?? 0;
}

/** JSON over several lines, as far as it is JSON: what was cut is not. */
export function spread(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
