import { isRecord } from '../../../shared/base/json.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { fixedArgsIn, fixedArgs } from '../configure.ts';
import type { MappingSource } from '../mapping.ts';
import { parseArgs, shownArgs } from './args.ts';
import type { CallResult, StepCall } from '../../../shared/contract/journal/turn-state.ts';
import type { ToolRegistry } from '../registry.ts';
import type { Tool } from '../tool.ts';
import { errorResult, faultOf } from '../tool-error.ts';

/** A call that may be dispatched: its tool, its checked arguments, and the arguments as events show them. */
export interface ReadyCall {
  readonly kind: 'ready';
  readonly call: StepCall;
  readonly tool: Tool;
  /** As the model gave them, before defaults and fixed arguments. */
  readonly raw: Readonly<Record<string, unknown>>;
  readonly args: unknown;
  readonly shown: Record<string, unknown>;
  /** Of the call on whose behalf this one is made. */
  readonly parentToolCallId?: string;
  /** Its idempotency key, where it is none of the model's own calls. */
  readonly key?: string;
}

/** A call that never reaches its tool. Events show no arguments of it. */
export interface RefusedCall {
  readonly kind: 'refused';
  readonly call: StepCall;
  readonly result: CallResult;
  readonly parentToolCallId?: string;
}

export type PreparedCall = ReadyCall | RefusedCall;

export interface Preparation {
  readonly registry: ToolRegistry;
  /** Deferred tools that the model has found: it may not call the others. */
  readonly promoted: readonly string[];
  /** Those that it may not call for the rest of the turn. */
  readonly withdrawn: readonly string[];
  readonly redactor: Redactor;
  /** For the arguments that the agent sets itself. */
  readonly secrets: { get(name: string): string | undefined } | undefined;
  /** For those that come from the run. */
  readonly source: MappingSource;
  readonly carriesSecret: (args: unknown) => boolean;
}

/** Finds the tool, reads the arguments, validates them. Each mistake of the model is one that it may correct. */
export async function prepareCall(call: StepCall, preparation: Preparation): Promise<PreparedCall> {
  const { registry, promoted } = preparation;
  const tool = registry.meant(call);
  if (!tool || (tool.deferLoading && !promoted.includes(tool.name) && !promoted.includes(call.name)))
    return refused(call, 'unknown_tool', unknownTool(preparation));
  if (preparation.withdrawn.includes(tool.name)) return withdrawnCall(call);
  const parsed = parseArgs(call.args);
  if (parsed.kind === 'refused') return refused(call, 'invalid_input', parsed.reason);
  return await checkCall(call, tool, parsed.value, preparation);
}

/** The call with these arguments, if the tool takes them. */
export async function checkCall(
  call: StepCall,
  tool: Tool,
  raw: unknown,
  { redactor, secrets, source, carriesSecret }: Preparation,
): Promise<PreparedCall> {
  try {
    if (carriesSecret(raw))
      return refused(call, 'invalid_input', 'the arguments contain a secret, which must not be passed on');
    const fixed = fixedArgs(tool, secrets, source);
    const taken = fixed ? fixedArgsIn(raw, Object.keys(fixed)) : [];
    if (taken.length > 0) return refused(call, 'invalid_input', `these arguments are set already: ${taken.join(', ')}`);
    const checked = await tool.check(fixed && isRecord(raw) ? { ...raw, ...fixed } : raw, Object.keys(fixed ?? {}));
    if (!checked.ok) return refused(call, 'invalid_input', redactor.text(checked.problems.join('; ')));
    const shown = shownArgs(raw, redactor);
    return { kind: 'ready', call, tool, raw: isRecord(raw) ? raw : {}, args: checked.value, shown };
  } catch (thrown) {
    // A check that throws is a defect of the tool: the model cannot repair it.
    const { kind, message } = faultOf(thrown);
    return { kind: 'refused', call, result: errorResult({ kind, message: redactor.text(message) }, call.name) };
  }
}

/** No mistake that a correction round is for: the loop guard counts these. */
function withdrawnCall(call: StepCall): RefusedCall {
  const message =
    'it was withdrawn for the rest of this turn, because its calls went in circles; use another tool, or answer with what you have';
  return { kind: 'refused', call, result: errorResult({ kind: 'loop_guarded', message }, call.name) };
}

function refused(call: StepCall, kind: 'unknown_tool' | 'invalid_input', message: string): RefusedCall {
  return { kind: 'refused', call, result: errorResult({ kind, message }, call.name, true) };
}

function unknownTool({ registry, promoted }: Preparation): string {
  const names = registry.advertised(promoted).map((tool) => tool.name);
  return names.length === 0 ? 'there is no such tool' : `there is no such tool; the tools are ${names.join(', ')}`;
}
