import type { EventBody } from '../../../../src/shared/contract/event.ts';
import { silentLog } from '../../../../src/shared/base/log.ts';
import type { HostContext, Tool, ToolOutput } from '../../../../src/worker/tools/tool.ts';

export interface CalledTool {
  readonly output: unknown;
  readonly events: readonly EventBody[];
}

/** Calls a tool of this package as the executor does: arguments are checked first. Throws what it throws. */
export async function callTool(tool: Tool, args: object, more: Partial<HostContext> = {}): Promise<CalledTool> {
  const checked = await tool.check(args);
  if (!checked.ok) throw new Error(checked.problems.join('; '));
  const events: EventBody[] = [];
  const context: HostContext = {
    runId: '01KAPN3YV8Q2T5W7X9Z0A1B2C3',
    tenant: 'acme',
    toolCallId: 'call_1',
    idempotencyKey: 'key',
    effect: 'once',
    signal: new AbortController().signal,
    progress: () => {},
    partial: () => {},
    secrets: { get: () => '' },
    logger: silentLog,
    emit: (event) => void events.push(event),
    catalogue: () => [],
    promote: () => {},
    callTool: async () => ({ ok: true, value: undefined }),
    calledBefore: [],
    ...more,
  };
  return { output: await tool.execute(checked.value, context), events };
}

/** The value of a `ToolOutput`. */
export function valueOf({ output }: CalledTool): unknown {
  return (output as ToolOutput).value;
}
