import { toolErrorHints } from '../../shared/base/errors.ts';
import type { LlmPart } from '../llm/provider.ts';
import { callSummary, shownArgs } from '../tools/execute/args.ts';
import { outputSummary } from '../tools/execute/result.ts';
import type { Turn } from './contract.ts';

const maxOpenCalls = 1_000;

type RelayedPart = Extract<LlmPart, { type: 'tool_relayed_call' | 'tool_relayed_result' }>;

/** Tells of the tools that a provider runs itself, like those that run here, and runs none of them. */
export function relayer({ deps }: Pick<Turn, 'deps'>): (part: RelayedPart) => void {
  const open = new Map<string, { readonly name: string; readonly startedMs: number }>();
  return (part) => {
    const toolCallId = part.id;
    if (part.type === 'tool_relayed_call') {
      // A box that never answers its calls must not fill the memory: beyond the bound calls are not told.
      if (open.has(toolCallId) || open.size >= maxOpenCalls) return;
      const args = shownArgs(part.args, deps.redactor);
      open.set(toolCallId, { name: part.name, startedMs: deps.clock.monotonic() });
      deps.emit({ type: 'tool.call.start', toolCallId, toolName: part.name });
      deps.emit({ type: 'tool.call.end', toolCallId, finalArgs: args });
      const summary = callSummary(part.name, args);
      deps.emit({ type: 'tool.execute.start', toolCallId, toolName: part.name, args, summary, relayed: true });
      return;
    }
    const call = open.get(toolCallId);
    if (!call) return;
    open.delete(toolCallId);
    const durationMs = Math.max(0, Math.round(deps.clock.monotonic() - call.startedMs));
    const ended = { toolCallId, toolName: call.name, durationMs, relayed: true } as const;
    const text = outputSummary(part.output, deps.redactor);
    if (!part.isError) deps.emit({ type: 'tool.execute.end', ...ended, success: true, outputSummary: text });
    else {
      const error = { kind: 'execution_failed', message: text, hint: toolErrorHints.execution_failed } as const;
      deps.emit({ type: 'tool.execute.error', ...ended, success: false, error });
    }
  };
}
