import { readFileSync, readdirSync } from 'node:fs';
import { silentLog, createLog } from '../../../../src/shared/base/log.ts';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { AgentDefinition } from '../../../../src/shared/contract/agent/agent.ts';
import { systemClock, type Clock } from '../../../../src/shared/base/clock.ts';
import { createEgress } from '../../../../src/shared/egress/egress.ts';
import { mcpServers } from '../../../../src/shared/contract/agent/mcp.ts';
import { Redactor } from '../../../../src/shared/base/redact.ts';
import type { OpenedTools } from '../../../../src/worker/tools/source.ts';
import { McpHub, type McpRun } from '../../../../src/worker/tools/mcp/hub.ts';
import { builtEntry } from '../../../support/entries.ts';
import { ToolOutput, type Tool, type ToolContext } from '../../../../src/worker/tools/tool.ts';

const require = createRequire(import.meta.url);
export const oddServer = builtEntry(join(import.meta.dirname, '../../../fixtures/mcp/odd-server.ts'));

/** The start file of a published reference server. */
export function referenceServer(name: 'everything' | 'filesystem' | 'memory'): string {
  return join(dirname(require.resolve(`@modelcontextprotocol/server-${name}/package.json`)), 'dist/index.js');
}

export const node = process.execPath;

/** The server of the fixtures with a habit. */
export function odd(habit = 'normal', more: Readonly<Record<string, unknown>> = {}, detail = ''): object {
  return { command: node, args: [oddServer, habit, detail], ...more };
}

export interface McpWorld {
  readonly hub: McpHub;
  /** Every line that was logged. */
  readonly lines: string[];
  /** Opens servers for a run, with all of their tools unless `tools` says otherwise. Closed with the test. */
  readonly open: (servers: Readonly<Record<string, object>>, options?: OpenOptions) => Promise<OpenedTools>;
}

interface OpenOptions extends Partial<McpRun> {
  readonly tools?: readonly string[];
  readonly signal?: AbortSignal;
}

export function makeMcpWorld({
  secrets = {},
  idleMs = 0,
  clock = systemClock,
}: {
  readonly secrets?: Readonly<Record<string, string>>;
  readonly idleMs?: number;
  readonly clock?: Clock;
} = {}): McpWorld {
  const lines: string[] = [];
  // Nothing but this room keeps secrets out of these lines.
  const log = createLog('test', 'debug', new Redactor(), { write: (line) => lines.push(line) });
  const egress = createEgress({ allowedHosts: ['127.0.0.1'] });
  const redactor = new Redactor();
  const of = { get: (name: string) => secrets[name] };
  const hub = new McpHub({ egress, secrets: of, redactor, log, clock, version: '1.0.0', idleMs });
  const opened: OpenedTools[] = [];
  onTestFinished(async () => {
    for (const one of opened) await one[Symbol.asyncDispose]();
    await hub[Symbol.asyncDispose]();
    await egress[Symbol.asyncDispose]();
  });
  return {
    hub,
    lines,
    async open(given, { tools, signal = new AbortController().signal, ...run } = {}) {
      const servers: AgentDefinition['mcpServers'] = mcpServers.parse(given);
      const granted = [...(tools ?? Object.keys(servers).map((name) => `mcp:${name}`))];
      const agent = { id: 'tester', mcpServers: servers, tools: granted };
      const one = await hub.open(agent, { runId: 'run_1', tenant: 'default', ...run }, signal);
      opened.push(one);
      return one;
    },
  };
}

export function find(opened: OpenedTools, name: string): Tool {
  const tool = opened.tools().find((one) => one.name === name);
  if (!tool)
    throw new Error(
      `there is no tool ${name} among ${opened
        .tools()
        .map((one) => one.name)
        .join(', ')}`,
    );
  return tool;
}

export function contextOf(more: Partial<ToolContext> = {}): ToolContext {
  return {
    runId: 'run_1',
    tenant: 'default',
    toolCallId: 'call_1',
    idempotencyKey: 'run_1:s1:t0',
    effect: 'once',
    signal: new AbortController().signal,
    progress: () => {},
    partial: () => {},
    secrets: { get: () => '' },
    logger: silentLog,
    ...more,
  };
}

/** Calls a tool and answers its value as text, whatever it is. */
export async function call(
  opened: OpenedTools,
  name: string,
  args: Readonly<Record<string, unknown>> = {},
  context: Partial<ToolContext> = {},
): Promise<string> {
  const { value } = await output(opened, name, args, context);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export async function output(
  opened: OpenedTools,
  name: string,
  args: Readonly<Record<string, unknown>> = {},
  context: Partial<ToolContext> = {},
): Promise<ToolOutput> {
  const tool = find(opened, name);
  const answer = await tool.execute(args, contextOf({ effect: tool.effect, ...context }));
  if (answer instanceof ToolOutput) return answer;
  throw new Error('this is no output of a tool');
}

/** Processes that this one has started, and theirs, by their numbers. */
export function descendants(root = process.pid): number[] {
  const parents = new Map<number, number>();
  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, 'utf8');
      const [state = '', parent = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (state !== 'Z') parents.set(Number(entry), Number(parent));
    } catch {
      // It has ended meanwhile.
    }
  }
  const descendants = (pid: number): number[] =>
    [...parents].filter(([, parent]) => parent === pid).flatMap(([child]) => [child, ...descendants(child)]);
  return descendants(root);
}

export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
  } catch {
    return false;
  }
}

/** Awaits a condition; the test's own deadline ends the wait. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await pause(10);
}
