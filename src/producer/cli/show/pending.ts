import { known, type Fact } from './paint.ts';
import { flat, oneLine } from '../../../shared/base/words.ts';
import { isAboutCall, pendingNameOf, waitsForPeople, type DecisionView } from '../../../shared/contract/decisions.ts';
import type { PendingView } from '../../../shared/contract/event.ts';
import type { FlowFinding } from '../../../shared/contract/flow.ts';
import type { RunView } from '../../../shared/contract/run.ts';
import type { DecisionInput } from '../../../shared/contract/control.ts';
import { formatUsd } from '../../../shared/contract/money.ts';

const maxReason = 160;
const maxArgs = 240;

type Waiting = Pick<RunView, 'runId' | 'pending'>;

/** What a suspended run waits for, in words; empty when it waits for nothing. */
export function waitsFor({ pending }: Pick<RunView, 'pending'>): string {
  return flat(pending.map(describe).join(', '));
}

/** Command lines that end the wait, as they are typed here; none when it ends by itself. */
export function waysOn({ runId, pending }: Waiting, millrace: string): readonly string[] {
  const calls = pending.filter(isAboutCall);
  const money = pending.some(({ kind }) => kind === 'budget');
  const lines = [
    calls.flatMap((item) => waysOf(runId, item, millrace)),
    money ? moneyWays(runId, millrace) : [],
  ].flat();
  const width = Math.max(0, ...lines.map(([command]) => command.length));
  return lines.map(([command, effect]) => `${command.padEnd(width)}   ${effect}`);
}

/**
 * The commands that decide about a run that waits for people, as they are typed here; none when it waits for something else.
 * {@link waysOn} has every way to decide.
 */
export function commandsFor({ runId, pending }: Waiting, millrace: string): readonly string[] {
  const asks = pending.filter(waitsForPeople);
  if (asks.length === 0) return [];
  const question = asks.find(({ kind }) => kind === 'user_input');
  const hasMoney = asks.some(({ kind }) => kind === 'budget');
  const all = asks.length > 1 ? 'all of it' : 'it';
  const approve: Way = question
    ? [`${millrace} approve ${runId} ${quoted(pendingNameOf(question))} --answer 'TEXT'`, 'answer it']
    : [`${millrace} approve ${runId}`, hasMoney ? 'go over the cap for this step' : `let ${all} run`];
  const ways: readonly Way[] = [
    approve,
    [`${millrace} deny ${runId}`, hasMoney ? 'end it with budget_exceeded' : `deny ${all}; the model is informed`],
    [`${millrace} get ${runId}`, 'see all that it waits for, and every way to decide'],
    [`${millrace} cancel ${runId}`, 'stop the run'],
  ];
  const width = Math.max(...ways.map(([command]) => command.length));
  return ways.map(([command, effect]) => `  ${command.padEnd(width)}   ${effect}`);
}

type Way = readonly [command: string, effect: string];

function waysOf(runId: string, item: PendingView, millrace: string): readonly Way[] {
  const { kind, mode } = item;
  const call = quoted(pendingNameOf(item));
  const answer: Way = [`${millrace} approve ${runId} ${call} --answer TEXT`, 'answer it'];
  const deny: Way = [`${millrace} deny ${runId} ${call} --reason TEXT`, 'deny it; the model is informed'];
  if (kind === 'user_input') return [answer, deny];
  const grant: Way = [`${millrace} approve ${runId} ${call}`, kind === 'approval' ? 'let it run' : 'run it once more'];
  const edit: Way = [`${millrace} approve ${runId} ${call} --args JSON`, 'let it run with other arguments'];
  const result: Way = [answer[0], kind === 'approval' ? 'give its result' : 'it happened, and this is its result'];
  if (kind === 'unknown_outcome') return [grant, result, deny];
  return mode === 'deferred' ? [grant, edit, result, deny] : [grant, edit, deny];
}

function moneyWays(runId: string, millrace: string): readonly Way[] {
  return [
    [`${millrace} approve ${runId}`, 'go over the cap for this step'],
    [`${millrace} approve ${runId} --top-up 5`, 'give it 5 dollars more'],
    [`${millrace} deny ${runId}`, 'end it with budget_exceeded'],
  ];
}

/** What a person needs to know before deciding, a row each. */
export function askRows({ pending }: Pick<RunView, 'pending'>): readonly (readonly [string, string])[] {
  return known(
    pending.filter(waitsForPeople).flatMap((item): Fact[] => {
      const { args, expiresAt, approvers = 1 } = item;
      return [
        ['arguments', args && oneLine(JSON.stringify(args), maxArgs)],
        ...changeRows(item.toolChange),
        ...flowLines(item).map((line): Fact => ['data flow', line]),
        ['needs', approvers > 1 ? `${approvers} different people` : undefined],
        ['expires', expiresAt],
      ];
    }),
  );
}

/** What the data-flow policy asks about: which value, from where, to where. */
export function flowLines({
  flow = [],
  toolName = 'a call',
}: Pick<PendingView, 'flow' | 'toolName'>): readonly string[] {
  return flow.map((found) => {
    const value = found.value === undefined ? '' : `: ${oneLine(JSON.stringify(found.value), maxArgs)}`;
    return `${flowText(found)} → ${oneLine(toolName, 128)}${value}`;
  });
}

/** One finding in words, without its value. */
export function flowText({ rule, argument, source }: FlowFinding): string {
  const from = source && `from ${oneLine(source.name, 128)}`;
  return [rule, argument && `in ${oneLine(argument, 128)}`, from].filter((part) => part !== undefined).join(' ');
}

/** The same, a line each. */
export function changeLines({ toolChange }: Pick<PendingView, 'toolChange'>): readonly string[] {
  return known(changeRows(toolChange)).map(([name, value]) => `${name}: ${value}`);
}

/** What the server of the tool has changed: granting the call accepts it. */
function changeRows(change: PendingView['toolChange']): Fact[] {
  if (!change) return [];
  const { parts, before, after } = change;
  const schema = ({ inputSchema }: typeof after) => oneLine(inputSchema, maxArgs);
  const hasOtherSchema = before !== undefined && before.inputSchema !== after.inputSchema;
  return [
    ['changed', before ? parts.join(', ') : 'the tool was not there'],
    ['was', before && oneLine(before.description, maxArgs)],
    ['is now', oneLine(after.description, maxArgs)],
    ['took', hasOtherSchema ? schema(before) : undefined],
    ['takes now', hasOtherSchema || !before ? schema(after) : undefined],
  ];
}

/** A word of a command line as a shell takes it. */
export function quoted(text: string): string {
  return /^[\w.:/-]+$/.test(text) ? text : `'${oneLine(text, 512).replaceAll("'", `'\\''`)}'`;
}

function describe(item: PendingView): string {
  const reason = item.reason === undefined ? '' : `: ${oneLine(item.reason, maxReason)}`;
  const id = pendingNameOf(item);
  const name = `${oneLine(item.toolName ?? 'a call', 128)} (${oneLine(id, 128)})`;
  switch (item.kind) {
    case 'budget':
      return `money of ${id.replace(':', ' ')}${reason}`;
    case 'provider_limit':
      return `its turn at ${id}${reason}`;
    case 'retry':
      return `the next try${item.expiresAt ? ` at ${item.expiresAt}` : ''}${reason}`;
    case 'approval':
      return `approval of ${name}${reason}`;
    case 'user_input':
      return `an answer to ${oneLine(id, 128)}${reason}`;
    case 'child':
      return `run ${id}, which does ${oneLine(item.toolName ?? 'a part of its work', 128)}`;
    case 'unknown_outcome':
      return `a decision about the outcome of ${name}${reason}`;
    default:
      return `${item.kind} ${item.toolName ?? ''} (${id})${reason}`;
  }
}

/** What a decision did and what happens next, a line each. `before` is the run as it was when that was chosen. */
export function whatFollows(before: RunView, { budget }: DecisionInput, after: RunView): readonly string[] {
  const calls = before.pending.flatMap((item) => effectOn(item, after));
  return [...calls, next(before, budget, after)].map(flat);
}

function next(before: RunView, budget: DecisionInput['budget'], after: RunView): string {
  const { runId, status } = after;
  if (budget === 'reject') return `${runId} ends with budget_exceeded; it has spent ${formatUsd(after.costMicrocents)}`;
  if (budget === 'approve') return `${runId} goes on; its next step may pass the cap`;
  const left = waitsFor(after);
  if (before.status === 'suspended' && status !== 'suspended') {
    return left === '' ? `${runId} goes on` : `${runId} goes on; it still waits for ${left}`;
  }
  return left === '' ? `${runId} is ${status}` : `${runId} waits for ${left}`;
}

/** One decision as it is shown with its run: what, by whom, when and why. */
export function decisionLine(decision: DecisionView): string {
  const { toolName, toolCallId, granted, answered, edited, by, at, reason, votes: given = [] } = decision;
  const people = by.length > 0 ? by : [...new Set(given.flatMap((vote) => vote.by ?? []))];
  const isOpen = granted === undefined && !answered;
  const what = isOpen ? 'voted on' : answered ? 'answered' : granted ? `approved${edited ? ', edited' : ''}` : 'denied';
  const who = people.length > 0 ? ` by ${people.map((name) => oneLine(name, 80)).join(' and ')}` : '';
  const why = reason === undefined ? '' : `: ${oneLine(reason, 200)}`;
  return `${oneLine(toolName ?? '', 128)} (${oneLine(toolCallId, 128)}) ${what}${who} at ${at}${why}`;
}

/** What became of one thing that the run waited for: nothing when it is as it was. */
function effectOn(item: PendingView, { pending, decisions = [] }: RunView): string[] {
  const call = pendingNameOf(item);
  const name = `${item.toolName ?? item.kind} (${call})`;
  const decision = decisions.findLast(({ toolCallId }) => toolCallId === call);
  if (!decision) return [];
  if (pending.some((other) => pendingNameOf(other) === call))
    return [`${name}: ${votes(decision, item.approvers ?? 1)}`];
  return [`${name} ${verdict(decision)}`, ...flowLines(item).map((line) => `  ${line}`)];
}

function verdict({ granted, answered, edited, kind, by }: DecisionView): string {
  const who = by.length > 0 ? ` by ${by.map((name) => oneLine(name, 80)).join(' and ')}` : '';
  if (answered) return `is answered${who}`;
  if (!granted) return `is denied${who}; the model is informed`;
  const what = kind === 'unknown_outcome' ? 'runs once more' : `runs${edited ? ' with the new arguments' : ''}`;
  return `is approved${who} and ${what}`;
}

function votes({ votes: given = [] }: DecisionView, needed: number): string {
  const people = new Set(given.map(({ by = '' }) => by));
  const names = [...people].map((name) => oneLine(name, 80)).join(', ');
  return `${people.size} of ${needed} people have voted (${names}); it needs ${needed} equal votes`;
}
