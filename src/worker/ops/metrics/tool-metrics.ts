import type { EventBody } from '../../../shared/contract/event.ts';
import { type Labels, callSeconds, type Series } from './series.ts';

/** Counts tool calls, what people and rules decided about them, and data-flow findings. */
export class ToolMetrics {
  readonly #labels: Labels;
  readonly #count: ReturnType<typeof toolSeries>;

  constructor(series: Series, labels: Labels) {
    this.#labels = labels;
    this.#count = toolSeries(series);
    for (const tool of labels.known.tools) this.#count.unknown.inc({ tool }, 0);
  }

  observe(event: EventBody): void {
    switch (event.type) {
      case 'tool.execute.end': {
        const tool = this.#labels.tool(event);
        this.#count.calls.inc({ tool, outcome: 'ok' });
        return this.#count.seconds.observe({ tool }, event.durationMs / 1_000);
      }
      case 'tool.execute.error': {
        const { kind } = event.error;
        // The name of an unknown tool is the model's free text and must not become a label.
        return this.#count.calls.inc({
          tool: kind === 'unknown_tool' ? 'unknown' : this.#labels.tool(event),
          outcome: kind,
        });
      }
      case 'tool.outcome_unknown':
        return this.#count.unknown.inc({ tool: this.#labels.tool(event) });
      case 'tool.approval.requested':
        return this.#count.asked.inc({ tool: this.#labels.tool(event) });
      case 'tool.approval.granted':
        return this.#count.decided.inc({ tool: this.#labels.tool(event), decision: 'granted' });
      case 'tool.approval.denied': {
        const decision = event.reason === 'expired' ? 'expired' : 'denied';
        return this.#count.decided.inc({ tool: this.#labels.tool(event), decision });
      }
      case 'policy.decision':
        return this.#count.policy.inc({ subject: event.subject, action: event.action });
      case 'dataflow.flagged':
      case 'dataflow.blocked':
      case 'dataflow.declassified':
        return this.#count.dataflow.inc({ decision: event.type.slice('dataflow.'.length) });
      default:
    }
  }
}

function toolSeries(series: Series) {
  return {
    calls: series.counter('millrace_tool_calls_total', 'Tool calls.', ['tool', 'outcome']),
    seconds: series.histogram('millrace_tool_call_seconds', 'Duration of a tool call.', ['tool'], callSeconds),
    unknown: series.counter(
      'millrace_tool_outcome_unknown_total',
      'Tool calls that may or may not have taken effect.',
      ['tool'],
    ),
    asked: series.counter('millrace_approvals_requested_total', 'Tool calls that began to wait for a person.', [
      'tool',
    ]),
    decided: series.counter(
      'millrace_approvals_decided_total',
      'Tool calls that a person, or the end of their time, decided about.',
      ['tool', 'decision'],
    ),
    policy: series.counter('millrace_policy_decisions_total', 'Decisions of rules about calls.', ['subject', 'action']),
    dataflow: series.counter('millrace_dataflow_total', 'Data-flow findings.', ['decision']),
  };
}
