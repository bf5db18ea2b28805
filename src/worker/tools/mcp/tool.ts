import { defined } from '../../../shared/base/collections.ts';
import type { Progress } from '@modelcontextprotocol/client';
import type { ToolEffect } from '../../../shared/contract/agent/agent.ts';
import type { Clock } from '../../../shared/base/clock.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { McpServer } from '../../../shared/contract/agent/mcp.ts';
import type { ToolChange } from '../../../shared/contract/mcp-pins.ts';
import { withoutOrders } from '../../guards/sanitise.ts';
import { toolDefaults, ToolOutput, type Tool, type ToolContext, type ToolPin } from '../tool.ts';
import { ToolError } from '../tool-error.ts';
import type { ArgumentChecks } from '../../../shared/base/argument-checks.ts';
import type { Connection } from './connection.ts';
import { maxProgressNotes, minProgressGapMs } from './limits.ts';
import { ServerGone, ServerRefusal } from './link.ts';
import type { ListedTool } from './list.ts';
import type { RunResources } from './resources.ts';
import { checkedForm } from './schema.ts';
import type { OfferedByServer, ServerPins } from './server-pins.ts';
import { outputOf, refusalText } from './result.ts';
import { isHttp } from './values.ts';

/** One server, as one run uses it. */
export interface RunServer {
  readonly name: string;
  readonly server: McpServer;
  /** Digest of `server`. */
  readonly definition: string;
  readonly connection: Connection;
  /** Absent: the server may change its tools. */
  readonly pins?: ServerPins | undefined;
  readonly resources: RunResources;
  readonly checks: ArgumentChecks;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * A tool of a server. What the server claims about its effects (`annotations`) is not looked at: a wrong claim would have
 * calls repeated that must happen once, and the author of the agent can set what is true with `effect`.
 */
export function mcpTool({ listed, change }: OfferedByServer, run: RunServer, deferLoading: boolean): Tool {
  const { server, name } = run;
  const waits = change !== undefined && server.pin === 'confirm';
  const url = isHttp(server) ? server.url : undefined;
  return {
    ...toolDefaults,
    name: listed.safeName,
    source: { server: name, tool: listed.name, safeName: listed.safeName, definition: run.definition },
    ...(waits
      ? unacceptedTexts(listed, change)
      : { description: listed.description, parameters: listed.schema.parameters }),
    pin: run.pins && pinOf(listed.name, run.pins),
    unaccepted: change && (waits ? 'asked' : 'withheld'),
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

/** What a model gets of a tool before the change is accepted: nothing that the server says now but the form of its arguments. */
function unacceptedTexts({ schema }: ListedTool, { server, before }: ToolChange) {
  const said = before && withoutOrders(before.description).text;
  return {
    description: said || `A tool of the server ${server} that is not accepted yet: a call of it waits for a person.`,
    parameters: checkedForm(schema.parameters),
  };
}

function pinOf(tool: string, pins: ServerPins): ToolPin {
  return {
    onChange: pins.pin,
    changed: async (signal) => await pins.changed(tool, signal),
    accept: async (change, by) => await pins.accept(change, by),
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
    await run.pins?.compare(signal).catch(() => {});
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
