import type {
  CallView,
  RunSteps,
  SegmentView,
  ShownMessage,
  StepView,
  WaitView,
} from '../../../shared/contract/archive/run-steps.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { countOf, duration, flat, oneLine } from '../../../shared/base/words.ts';
import { formatUsd } from '../../../shared/contract/money.ts';
import type { Cli } from '../cli.ts';
import { bold, dateTime, dim, red } from './paint.ts';

type Out = Cli['stdout'];
type AnyCall = CallView | CallView['inner'][number];

const maxChars = 600;

/** What a run did, for people: its course, and each step with its calls. Long texts are cut. */
export function stepLines(run: RunSteps, out: Out): string {
  const lines = [
    ...headOf(run, out),
    ...run.segments.map((segment) => dim(out, segmentLine(segment, run))),
    ...run.waits.map((wait) => dim(out, waitLine(wait, run))),
    '',
    ...run.initial.flatMap((message) => messageLines(message, '', out)),
    ...run.steps.flatMap((step) => ['', ...stepOf(step, out)]),
    ...run.orchestration.map(({ key, value }) => flat(`• ${key}  ${json(value)}`)),
    ...childLines(run),
    ...(run.error ? ['', red(out, `failed: ${run.error.code}: ${oneLine(run.error.message, maxChars)}`)] : []),
  ];
  return `${lines.join('\n')}\n`;
}

function headOf({ runId, status, source, queuedAt, truncated }: RunSteps, out: Out): string[] {
  const from = source === 'archive' ? ' · from the archive' : '';
  const cut = truncated ? ' · some of it is not kept any more' : '';
  return [`${bold(out, `${runId} ${status}`)} · accepted ${flat(dateTime(queuedAt))} UTC${from}${cut}`];
}

/** Since the run was accepted. */
function since(at: string, { queuedAt }: RunSteps): string {
  return `+${duration(Math.max(0, Date.parse(at) - Date.parse(queuedAt)))}`;
}

const segmentEnds: Readonly<Record<NonNullable<SegmentView['end']>, string>> = {
  lost: 'where it was lost',
  handed_over: 'which handed it over',
  suspended: 'until it waited',
  ended: 'until its end',
};

function segmentLine({ worker = 'a worker', from, to, end, recoveredFrom }: SegmentView, run: RunSteps): string {
  const until = to === undefined ? ', there now' : ` to ${since(to, run)}`;
  const how = end === undefined ? '' : `, ${segmentEnds[end]}`;
  const went = recoveredFrom === undefined ? '' : `, going on after step ${recoveredFrom}`;
  return `on ${worker} from ${since(from, run)}${until}${how}${went}`;
}

function waitLine({ reason, from, to, waitsFor, by, summary }: WaitView, run: RunSteps): string {
  const what = waitsFor.map(({ toolName, id }) => toolName ?? id).join(', ');
  const until = to === undefined ? ', and waits now' : ` to ${since(to, run)}`;
  const who = by.length > 0 ? `, ended by ${by.join(' and ')}` : '';
  const how = summary === undefined ? '' : `: ${oneLine(summary, maxChars)}`;
  return `waited for ${reason}${what === '' ? '' : ` (${oneLine(what, maxChars)})`} from ${since(from, run)}${until}${who}${how}`;
}

function stepOf(step: StepView, out: Out): string[] {
  const { stepNumber, agent, provider, model, startedAt, endedAt, costMicrocents, answer, attempts } = step;
  const took =
    startedAt !== undefined && endedAt !== undefined
      ? [duration(Math.max(0, Date.parse(endedAt) - Date.parse(startedAt)))]
      : [];
  const served = [provider, model].filter((part) => part !== undefined).join('/');
  const head = [`step ${stepNumber}`, agent, served, ...took, formatUsd(costMicrocents)].join('  ');
  return [
    bold(out, head),
    ...(step.handoff ? [dim(out, `  handed over by ${step.handoff.from}`)] : []),
    ...(step.compaction
      ? [dim(out, `  a summary takes the place of older messages: ${oneLine(step.compaction.summary, maxChars)}`)]
      : []),
    ...(step.closing ? [dim(out, `  its last answer: it had reached ${step.closing.reason}`)] : []),
    // Results are shown with their calls, in the step before.
    ...step.request.added.flatMap((message) => (message.role === 'tool' ? [] : messageLines(message, '  ', out))),
    ...attempts.flatMap(({ outcome, model: tried, error, skipReason }) =>
      outcome === 'succeeded'
        ? []
        : [dim(out, `  ${tried} ${outcome}: ${oneLine(error?.message ?? skipReason ?? '', maxChars)}`)],
    ),
    ...step.fallbacks.map(({ from, to, reason }) => dim(out, `  ${from} gave way to ${to} (${reason})`)),
    ...(answer && answer.text !== '' ? [`  assistant: ${oneLine(answer.text, maxChars)}`] : []),
    ...(answer?.media ?? []).map(({ handle, mediaType }) => flat(`  ${mediaType} ${handle}`)),
    ...step.calls.flatMap((call) => callLines(call, '  ', out)),
  ];
}

function callLines(call: AnyCall, indent: string, out: Out): string[] {
  const { toolName, args, modelArgs, result, error, decision, durationMs, starts, childRunId } = call;
  const took =
    durationMs === undefined
      ? ''
      : ` (${duration(durationMs)}${starts === undefined ? '' : `, begun ${countOf(starts, 'time')}`})`;
  const who =
    decision &&
    `${decision.granted ? 'granted' : 'denied'}${decision.by.length > 0 ? ` by ${decision.by.join(' and ')}` : ''}${decision.reason === undefined ? '' : `: ${oneLine(decision.reason, maxChars)}`}`;
  const shown = `${toolName} ${json(args)}`;
  return [
    error ? red(out, `${indent}✗ ${shown}${took}`) : flat(`${indent}→ ${shown}${took}`),
    ...(modelArgs === undefined ? [] : [dim(out, `${indent}  the model had written ${json(modelArgs)}`)]),
    ...(who === undefined ? [] : [dim(out, `${indent}  ${who}`)]),
    ...call.policy.map(({ action, ruleId, reason }) =>
      dim(out, `${indent}  policy ${[action, ruleId, reason].filter(Boolean).join(': ')}`),
    ),
    ...call.flow.map(({ decision: what, findings }) =>
      dim(out, `${indent}  data flow ${what}: ${findings.map(({ rule }) => rule).join(', ')}`),
    ),
    ...(childRunId === undefined ? [] : [dim(out, `${indent}  run ${childRunId} does it`)]),
    ...call.inner.flatMap((inner) => callLines(inner, `${indent}  `, out)),
    ...(error ? [red(out, `${indent}  ${error.kind}: ${oneLine(error.message, maxChars)}`)] : []),
    ...(result ? [`${indent}← ${result.withheld ? 'secret, withheld' : oneLine(result.content, maxChars)}`] : []),
  ];
}

function messageLines(message: ShownMessage, indent: string, out: Out): string[] {
  const kind = message.role === 'user' && message.kind !== undefined ? ` (${message.kind})` : '';
  const text = oneLine(message.content ?? '', maxChars);
  return text === '' ? [] : [dim(out, `${indent}${message.role}${kind}: ${text}`)];
}

function childLines({ children }: RunSteps): string[] {
  return children.map(({ runId, agent, status, costMicrocents }) =>
    flat(
      ['child', runId, agent, status, costMicrocents === undefined ? undefined : formatUsd(costMicrocents)]
        .filter((part) => part !== undefined)
        .join('  '),
    ),
  );
}

function json(value: unknown): string {
  return oneLine(jsonText(value) ?? '', maxChars);
}
