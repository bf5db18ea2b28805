import { isTerminal, type RunEvent, type EventOf, type EventType } from '../../../shared/contract/event.ts';
import type { Cli } from '../cli.ts';
import { dim, red } from './paint.ts';
import { count, countOf, duration, flat, oneLine, printable } from '../../../shared/base/words.ts';
import { formatUsd } from '../../../shared/contract/money.ts';
import { flowText, waitsFor } from './pending.ts';

/** Prints one run as it happens: the model's text on stdout, everything else as dim lines on stderr. */
export class RunPrinter {
  readonly #cli: Pick<Cli, 'stdout' | 'stderr'>;
  /** A line of text is begun and not ended on stdout. */
  #midLine = false;
  /** Of the step that is going on. */
  #stepHasText = false;
  #runHasText = false;
  /** Lines of calls that were announced a moment ago: whether they are made is in the next events. */
  readonly #announced = new Map<string, string>();
  /** Denied calls whose error says nothing more. */
  readonly #denied = new Set<string>();
  #announcing: NodeJS.Timeout | undefined;

  constructor(cli: Pick<Cli, 'stdout' | 'stderr'>) {
    this.#cli = cli;
  }

  print(event: RunEvent): void {
    if (event.type === 'text.delta') return this.#text(event.delta);
    if (event.type === 'step.reset') return this.#discard(event.reason);
    if (event.type === 'step.start') this.#stepHasText = false;
    if (event.type === 'step.end') return this.endLine();
    if (isTerminal(event)) return this.#end(event);
    const line = lineOf(event);
    if (event.type === 'tool.execute.start') return this.#announce(event.toolCallId, line ?? '');
    if (event.type === 'tool.approval.denied') this.#denied.add(event.toolCallId);
    if (event.type === 'tool.approval.denied' || isNotMade(event)) this.#announced.delete(event.toolCallId);
    if (event.type === 'tool.execute.error' && this.#denied.delete(event.toolCallId)) return;
    this.#showAnnounced();
    if (line !== undefined) this.note(line);
  }

  /** A call that is denied is announced like any other: its line waits for what follows, and shows by itself soon after. */
  #announce(toolCallId: string, line: string): void {
    this.#announced.set(toolCallId, line);
    this.#announcing ??= setTimeout(() => this.#showAnnounced(), announceAfterMs);
  }

  #showAnnounced(): void {
    clearTimeout(this.#announcing);
    this.#announcing = undefined;
    const lines = [...this.#announced.values()];
    this.#announced.clear();
    for (const line of lines) this.note(line);
  }

  /** A dim line on stderr, on a line of its own where both streams share a terminal. */
  note(text: string): void {
    if (this.#announced.size > 0) this.#showAnnounced();
    const { stdout, stderr } = this.#cli;
    if (stdout.isTTY) this.endLine();
    stderr.write(`${dim(stderr, text)}\n`);
  }

  #text(text: string): void {
    const { stdout } = this.#cli;
    const shown = stdout.isTTY ? printable(text) : text;
    if (shown === '') return;
    stdout.write(shown);
    this.#stepHasText = true;
    this.#runHasText = true;
    this.#midLine = !shown.endsWith('\n');
  }

  /** Printed text cannot be removed, not from a pipe either: it is marked as discarded. */
  #discard(reason: string): void {
    if (!this.#stepHasText) return;
    this.#stepHasText = false;
    this.endLine();
    this.#cli.stdout.write(flat(`[the text above is discarded: ${reason}]`) + '\n');
  }

  #end(event: RunEvent): void {
    // The deltas are gone when a user reads an old run; its result is not.
    if (!this.#runHasText && event.type === 'run.completed') this.#text(event.result.text);
    this.endLine();
    const { stderr } = this.#cli;
    const line = `${lineOf(event)} · ${event.runId}`;
    stderr.write(`${event.type === 'run.completed' ? dim(stderr, line) : red(stderr, line)}\n`);
  }

  /** Ends the line of text that is begun, if one is: something else follows. */
  endLine(): void {
    if (this.#midLine) this.#cli.stdout.write('\n');
    this.#midLine = false;
  }
}

const announceAfterMs = 100;
/** Errors of calls that never reached their tool. */
const notMade: ReadonlySet<string> = new Set(['approval_denied', 'unknown_tool', 'dataflow_policy_blocked']);

function isNotMade(event: RunEvent): event is EventOf<'tool.execute.error'> & RunEvent {
  return event.type === 'tool.execute.error' && notMade.has(event.error.kind);
}

const maxArgs = 160;
const maxText = 240;

/** An event as one line for a person; events that are not here are left out of pretty output. */
const lines: { readonly [T in EventType]?: (event: EventOf<T>) => string } = {
  'run.queued': () => 'queued',
  'run.started': ({ resumed, model }) => {
    // `run.resumed` has been shown.
    if (resumed) return '';
    return model ? `started with ${model}` : 'started';
  },
  'run.recovered': ({ previousWorker }) =>
    `another worker continues it: ${previousWorker ?? 'the one before'} was lost, or handed it over`,
  'run.suspended': ({ reason, pending }) => `waits for ${waitsFor({ pending }) || reason}`,
  'run.resumed': ({ directiveSummary }) => `continues: ${oneLine(directiveSummary, maxText)}`,
  'run.timeout': ({ timeoutMs }) => `reached its limit of ${duration(timeoutMs)}`,
  'run.completed': ({ status, result, usage, costMicrocents, durationMs }) =>
    `${status}${result.incomplete ? `, incomplete: it reached ${result.incomplete.reason}` : ''} · ${countOf(usage.total, 'token')} · ${formatUsd(costMicrocents)} · ${duration(durationMs)}`,
  'run.failed': ({ error, usage, costMicrocents }) =>
    `failed: ${error.code}: ${oneLine(error.message, maxText)} · ${countOf(usage.total, 'token')} · ${formatUsd(costMicrocents)}`,
  'run.cancelled': ({ reason, usage, costMicrocents }) =>
    `cancelled${reason ? ` (${oneLine(reason, maxText)})` : ''} · ${countOf(usage.total, 'token')} · ${formatUsd(costMicrocents)}`,
  'step.reset': ({ reason }) => `the text of this step was discarded: ${oneLine(reason, maxText)}`,
  'agent.model.fellback': ({ previousModel, nextModel, reason }) =>
    `model ${previousModel} gave way to ${nextModel} (${reason})`,
  'agent.cancelling': ({ drain }) => (drain ? 'is asked to stop after this step' : 'is asked to stop'),
  'agent.steered': ({ text }) => `message: ${oneLine(text, maxText)}`,
  'budget.warning': ({ spentMicrocents, limitMicrocents, thresholdPct }) =>
    `has spent ${thresholdPct} % of its budget (${formatUsd(spentMicrocents)} of ${formatUsd(limitMicrocents)})`,
  'budget.paused': ({ spentMicrocents, limitMicrocents, scope, accountId }) =>
    `the next call could pass the budget of ${scope} ${accountId} (${formatUsd(spentMicrocents)} of ${formatUsd(limitMicrocents)} spent)`,
  'tool.execute.start': ({ toolName, args }) => `→ ${toolName} ${oneLine(JSON.stringify(args), maxArgs)}`,
  'tool.execute.progress': ({ data }) => `  ${oneLine(JSON.stringify(data), maxText)}`,
  'tool.execute.end': ({ toolName, outputSummary, durationMs }) =>
    `← ${toolName} ${oneLine(outputSummary, maxText)} (${duration(durationMs)})`,
  'tool.approval.granted': ({ toolName, by, reason, edited }) =>
    `${toolName} is approved${whoAndWhy(by, reason)}${edited ? ', with other arguments' : ''}`,
  'tool.approval.denied': ({ toolName, by, reason }) => `✗ ${toolName} is not called: denied${whoAndWhy(by, reason)}`,
  'tool.execute.error': ({ toolName, error, durationMs }) =>
    notMade.has(error.kind)
      ? `✗ ${toolName} is not called: ${error.kind}: ${oneLine(error.message, maxText)}`
      : `✗ ${toolName} ${error.kind}: ${oneLine(error.message, maxText)} (${duration(durationMs)})`,
  'tool.call.incomplete': ({ toolName }) => `✗ ${toolName} was cut off while the model wrote its arguments`,
  'tool.outcome_unknown': ({ toolName }) => `✗ ${toolName} may or may not have taken effect`,
  'tool.approval.requested': ({ toolName, toolCallId, args }) =>
    `asks to call ${toolName} ${oneLine(JSON.stringify(args), maxArgs)} (${toolCallId})`,
  'dataflow.flagged': (event) => `! ${event.toolName} runs, and the data-flow policy would stop it: ${flowOf(event)}`,
  'dataflow.asked': (event) => `  because of the data-flow policy: ${flowOf(event)}`,
  'dataflow.blocked': (event) =>
    `✗ the data-flow policy stopped ${event.toolName}${whoAndWhy(event.by, undefined)}: ${flowOf(event)}`,
  'dataflow.declassified': (event) =>
    `! ${event.toolName} runs in spite of the data-flow policy, ${event.by ? `granted${whoAndWhy(event.by, undefined)}` : 'declassified'}: ${flowOf(event)}`,
  'capability.skipped': ({ name }) => `goes on without the capability ${oneLine(name, maxText)}`,
  'mcp.tools_changed': ({ server, pin, tools, more = 0 }) =>
    `${pin === 'refuse' ? '✗' : '!'} MCP server ${server} has changed ${oneLine(tools.map(({ tool }) => tool).join(', '), maxText)}${more > 0 ? ` and ${more} more` : ''}: ${pin === 'refuse' ? 'not called before an operator accepts it' : 'a call waits for a person'}`,
  'mcp.tool_accepted': ({ server, tool, by }) =>
    `${oneLine(tool, maxText)} of ${server} is accepted as it is now${whoAndWhy(by, undefined)}`,
  handoff: ({ toAgentId }) => `hands over to ${toAgentId}`,
  'agent.fanout.spawned': ({ children }) => `asks ${oneLine(children.join(', '), maxText)}`,
  'agent.fanout.merged': ({ children, statuses }) =>
    `merged: ${oneLine(children.map((id, at) => `${id} ${statuses[at]}`).join(', '), maxText)}`,
  'agent.evaluator.iteration': ({ iteration, passed, score }) =>
    `answer ${iteration} ${passed ? 'passes' : 'does not pass'}${score === undefined ? '' : ` with ${countOf(score, 'point')}`}`,
  'task.decide': ({ decision }) => `decides ${oneLine(JSON.stringify(decision), maxText)}`,
  'task.end': ({ status, reason }) => `task ${status}: ${oneLine(reason, maxText)}`,
  'context.compacted': ({ beforeTokens, afterTokens }) =>
    `context compacted from ${count(beforeTokens)} to ${countOf(afterTokens, 'token')}`,
  'guardrail.tripped': ({ guardrail }) => `guardrail ${guardrail} stopped it`,
  'llm.call': ({ outcome, model, error }) =>
    outcome === 'failed'
      ? `model ${model} failed: ${error?.kind ?? 'unknown'} ${oneLine(error?.message ?? '', maxText)}`.trimEnd()
      : '',
};

/** Rules, arguments and sources; never a value. */
function flowOf({ findings }: Pick<EventOf<'dataflow.flagged'>, 'findings'>): string {
  return oneLine(findings.map(flowText).join(', '), maxText);
}

function whoAndWhy(by: string | undefined, reason: string | undefined): string {
  const who = by === undefined ? '' : ` by ${oneLine(by, 200)}`;
  return reason === undefined ? who : `${who}: ${oneLine(reason, maxText)}`;
}

/** The line for an event, without its run and time; undefined when it is not worth one. */
export function lineOf(event: RunEvent): string | undefined {
  const describe = lines[event.type] as ((event: RunEvent) => string) | undefined;
  const line = describe?.(event);
  return line ? flat(line) : undefined;
}
