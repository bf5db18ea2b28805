import type { ToolChange } from '../../../shared/contract/mcp-pins.ts';
import type { CallResult } from '../../../shared/contract/journal/turn-state.ts';
import { errorResult, faultOf } from '../tool-error.ts';
import type { Batch } from './batch.ts';
import type { ReadyCall } from './prepare.ts';

/**
 * What becomes of a call whose server has changed the tool. `unchanged`: it has not, or a person has just accepted it.
 * `ask`: a person decides about the change, whatever was decided about the call before.
 */
export type PinVerdict =
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'refused'; readonly result: CallResult }
  | { readonly kind: 'ask'; readonly change: ToolChange };

/** Compares the tool with what was accepted, just before its call. What cannot be compared is refused. Never rejects. */
export async function judgePin(ready: ReadyCall, batch: Batch): Promise<PinVerdict> {
  const { tool, call } = ready;
  const { pin } = tool;
  if (!pin) return { kind: 'unchanged' };
  try {
    const change = await pin.changed(batch.signal);
    if (!change) return { kind: 'unchanged' };
    if (pin.onChange === 'refuse') return refused(ready, changedText(change));
    const { ask, decision } = call;
    const isAboutThis = ask?.kind === 'approval' && ask.pin === change.digest && decision?.kind === 'approval';
    if (!isAboutThis) return { kind: 'ask', change };
    // A denial is said where all denials are.
    if (decision.granted) await accept(ready, change, decision.by.join(', '), batch);
    return { kind: 'unchanged' };
  } catch (thrown) {
    return refused(ready, `what its server says about it could not be compared: ${faultOf(thrown).message}`);
  }
}

async function accept({ tool, call }: ReadyCall, change: ToolChange, by: string, { host }: Batch): Promise<void> {
  await tool.pin?.accept(change, by === '' ? 'unknown' : by);
  const about = { toolCallId: call.id, toolName: call.name, server: change.server, tool: change.tool };
  host.emit({ type: 'mcp.tool_accepted', ...about, digest: change.digest, by: by || undefined });
}

function refused({ call }: ReadyCall, message: string): PinVerdict {
  return { kind: 'refused', result: errorResult({ kind: 'capability_blocked', message }, call.name) };
}

/** For the model and for who reads the run: both know the server by its name in the agent. */
function changedText({ server, before }: ToolChange): string {
  const what = before
    ? 'its server has changed it since it was accepted'
    : 'its server did not have it when it was accepted';
  return `${what}; it is not called before an operator accepts it (millrace mcp accept ${server})`;
}

/** What the person sees who decides: without secrets, and as the server wrote it. */
export function shownChange({ before, after, ...change }: ToolChange, { host }: Batch): ToolChange {
  const { redactor } = host;
  const shown = ({ description, inputSchema }: ToolChange['after']) => ({
    description: redactor.text(description),
    inputSchema: redactor.text(inputSchema),
  });
  return { ...change, before: before && shown(before), after: shown(after) };
}
