import type { EventBody } from '../../../shared/contract/event.ts';
import { flowDecision, flowRule } from '../../../shared/contract/flow.ts';
import { type Labels, callSeconds, type Series } from './series.ts';

/** Counts tool calls, what people and rules decided about them, and what guards found. */
export function toolMetrics(series: Series, labels: Labels) {
  const count = toolSeries(series);
  for (const tool of labels.known.tools) count.unknown.inc({ tool }, 0);
  for (const decision of flowDecision.options)
    for (const rule of flowRule.options) count.dataflow.inc({ decision, rule }, 0);
  return {
    observe(event: EventBody): void {
      switch (event.type) {
        case 'tool.execute.end': {
          const tool = labels.tool(event);
          count.calls.inc({ tool, outcome: 'ok' });
          return count.seconds.observe({ tool }, event.durationMs / 1_000);
        }
        case 'tool.execute.error': {
          const { kind } = event.error;
          // The name of an unknown tool is the model's free text and must not become a label.
          const tool = kind === 'unknown_tool' ? 'unknown' : labels.tool(event);
          return count.calls.inc({ tool, outcome: kind });
        }
        case 'tool.outcome_unknown':
          return count.unknown.inc({ tool: labels.tool(event) });
        case 'tool.approval.requested':
          return count.asked.inc({ tool: labels.tool(event) });
        case 'tool.approval.granted':
          return count.decided.inc({ tool: labels.tool(event), decision: 'granted' });
        case 'tool.approval.denied': {
          const decision = event.reason === 'expired' ? 'expired' : 'denied';
          return count.decided.inc({ tool: labels.tool(event), decision });
        }
        case 'policy.decision':
          return count.policy.inc({ subject: event.subject, action: event.action });
        case 'dataflow.flagged':
        case 'dataflow.asked':
        case 'dataflow.blocked':
        case 'dataflow.declassified':
          return count.dataflow.inc({ decision: event.type.slice('dataflow.'.length), rule: event.rule });
        case 'agent.lateral-leak.detected':
          return count.leaks.inc({ vector: event.vector, decision: event.decision });
        default:
      }
    },
  };
}

function toolSeries({ counter, histogram }: Series) {
  return {
    calls: counter('millrace_tool_calls_total', 'Tool calls.', 'tool', 'outcome'),
    seconds: histogram('millrace_tool_call_seconds', 'Duration of a tool call.', callSeconds, 'tool'),
    unknown: counter(
      'millrace_tool_outcome_unknown_total',
      'Tool calls that may or may not have taken effect.',
      'tool',
    ),
    asked: counter('millrace_approvals_requested_total', 'Tool calls that began to wait for a person.', 'tool'),
    decided: counter(
      'millrace_approvals_decided_total',
      'Tool calls that a person, or the end of their time, decided about.',
      'tool',
      'decision',
    ),
    policy: counter('millrace_policy_decisions_total', 'Decisions of rules about calls.', 'subject', 'action'),
    dataflow: counter(
      'millrace_dataflow_total',
      'Calls in which the data-flow policy found something, by the first rule.',
      'decision',
      'rule',
    ),
    leaks: counter('millrace_lateral_leaks_total', 'Findings of the lateral-leak guards.', 'vector', 'decision'),
  };
}
