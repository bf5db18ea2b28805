import type { Redactor } from '../../shared/redact.ts';
import { parseArgs, shownArgs } from './args.ts';
import type { CallResult, StepCall } from './call.ts';
import type { ToolRegistry } from './registry.ts';
import type { Tool } from './tool.ts';
import { errorResult, faultOf } from './tool-error.ts';

/** A call that may be dispatched: its tool, its checked arguments, and the arguments as events show them. */
export interface ReadyCall {
  readonly kind: 'ready';
  readonly call: StepCall;
  readonly tool: Tool;
  readonly args: unknown;
  readonly shown: Record<string, unknown>;
}

/** A call that never reaches its tool. Events show no arguments of it. */
export interface RefusedCall {
  readonly kind: 'refused';
  readonly call: StepCall;
  readonly result: CallResult;
}

export type PreparedCall = ReadyCall | RefusedCall;

/** Finds the tool, reads the arguments, validates them. Each mistake of the model is one that it may correct. */
export async function prepareCall(call: StepCall, registry: ToolRegistry, redactor: Redactor): Promise<PreparedCall> {
  const tool = registry.find(call.name);
  if (!tool) return refused(call, 'unknown_tool', unknownTool(registry));
  const parsed = parseArgs(call.args);
  if (parsed.kind === 'refused') return refused(call, 'invalid_input', parsed.reason);
  try {
    const checked = await tool.inputSchema.safeParseAsync(parsed.value);
    if (checked.success)
      return { kind: 'ready', call, tool, args: checked.data, shown: shownArgs(parsed.value, redactor) };
    const problems = checked.error.issues.map((issue) => `${issue.path.join('.') || 'arguments'}: ${issue.message}`);
    return refused(call, 'invalid_input', problems.join('; '));
  } catch (thrown) {
    // A check that throws is a defect of the tool: the model cannot mend it.
    const fault = faultOf(thrown);
    return {
      kind: 'refused',
      call,
      result: errorResult({ ...fault, message: redactor.text(fault.message) }, call.name),
    };
  }
}

function refused(call: StepCall, kind: 'unknown_tool' | 'invalid_input', message: string): RefusedCall {
  return { kind: 'refused', call, result: errorResult({ kind, message }, call.name, true) };
}

function unknownTool(registry: ToolRegistry): string {
  const names = registry.advertised().map((tool) => tool.name);
  return names.length === 0 ? 'there is no such tool' : `there is no such tool; the tools are ${names.join(', ')}`;
}
