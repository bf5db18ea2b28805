import { defined } from '../../../shared/base/collections.ts';
import type { Progress } from '@modelcontextprotocol/client';
import type { ToolEffect } from '../../../shared/contract/agent/agent.ts';
import type { Clock } from '../../../shared/base/clock.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { McpServer } from '../../../shared/contract/agent/mcp.ts';
import { toolDefaults, ToolOutput, type Tool, type ToolContext } from '../tool.ts';
import { ToolError } from '../tool-error.ts';
import type { ArgumentChecks } from '../../../shared/base/argument-checks.ts';
import type { Connection } from './connection.ts';
import { maxProgressNotes, minProgressGapMs } from './limits.ts';
import { ServerGone, ServerRefusal } from './link.ts';
import type { ListedTool } from './list.ts';
import type { RunResources } from './resources.ts';
import { outputOf, refusalText } from './result.ts';
import { isHttp } from './values.ts';

/** One server, as one run uses it. */
export interface RunServer {
  readonly name: string;
  readonly server: McpServer;
  /** Digest of `server`. */
  readonly definition: string;
  readonly connection: Connection;
  readonly resources: RunResources;
  readonly checks: ArgumentChecks;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * A tool of a server. What the server claims about its effects (`annotations`) is not looked at: a wrong claim would have
 * calls repeated that must happen once, and the author of the agent can set what is true with `effect`.
 */
export function mcpTool(listed: ListedTool, run: RunServer, deferLoading: boolean): Tool {
  const { server, name } = run;
  const url = isHttp(server) ? server.url : undefined;
  return {
    ...toolDefaults,
    name: listed.safeName,
    source: { server: name, tool: listed.name, safeName: listed.safeName, definition: run.definition },
    description: listed.description,
    parameters: listed.schema.parameters,
    check: async (args) =>
      run.checks.check(listed.schema, args, () =>
        run.log.warn(
          { server: name, tool: listed.safeName },
          'arguments are left to an mcp server: its schema is too slow',
        ),
      ),
    effect: server.effect,
    needsApproval: false,
    deferLoading,
    trust: 'mcp-derived',
    ...defined({ facts: url === undefined ? undefined : () => ({ urls: [url] }) }),
    timeoutMs: server.timeoutMs,
    sideEffectClass: 'external-stateful',
    execute: (args, context) => call(listed, run, args as Record<string, unknown>, context),
  };
}

async function call(listed: ListedTool, run: RunServer, args: Record<string, unknown>, context: ToolContext) {
  const { connection, name, resources } = run;
  const { signal, idempotencyKey, effect } = context;
  const params = { name: listed.name, arguments: args, _meta: { 'millrace/idempotencyKey': idempotencyKey } };
  try {
    const result = await connection.request('tools/call', params, {
      signal,
      mayRepeat: effect !== 'once',
      onProgress: throttled((progress) => context.progress(progress), run.clock),
    });
    return outputOf(result, {
      server: name,
      readsResources: connection.hasResources,
      name: (handle) => resources.name(handle, name, connection),
    });
  } catch (error) {
    if (error instanceof ServerRefusal)
      return new ToolOutput(refusalText(connection.clean(error.message)), { isError: true });
    if (error instanceof ServerGone) throw goneError(error, run.name, effect);
    throw error;
  } finally {
    // A call may change which tools there are: the next step must see it.
    await connection.settled(signal);
  }
}

/** What was sent may have taken effect, whatever the server answered in place of a result. */
function goneError(error: ServerGone, name: string, effect: ToolEffect): ToolError {
  const what = `MCP server ${name}: ${error.message}`;
  if (error.mayHaveArrived && effect === 'once') return new ToolError('outcome_unknown', what, { cause: error });
  const advice = 'You may call it again: the connection is made anew';
  return new ToolError('execution_failed', `${what}. ${advice}`, { cause: error });
}

/** A server may report its progress as often as it likes; each report that is handed on becomes an event. */
function throttled(emit: (progress: Progress) => void, clock: Pick<Clock, 'monotonic'>): (progress: Progress) => void {
  let [count, lastMs] = [0, -Infinity];
  return ({ progress, total, message }) => {
    const now = clock.monotonic();
    const isLast = total !== undefined && progress >= total;
    if (count >= maxProgressNotes || (now - lastMs < minProgressGapMs && !isLast)) return;
    [count, lastMs] = [count + 1, now];
    emit(defined({ progress, total, message }));
  };
}
