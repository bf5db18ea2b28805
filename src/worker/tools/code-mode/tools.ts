import { z } from 'zod';
import type { ToolErrorKind } from '../../../shared/base/errors.ts';
import { definePackageTool } from '../define.ts';
import { scriptToolName } from '../names.ts';
import { ToolError } from '../tool-error.ts';
import { ToolOutput, type CatalogueEntry, type HostContext, type Tool } from '../tool.ts';
import { defaultLimits } from './protocol.ts';
import { maxProcessWaitMs, type ScriptPool } from './pool.ts';
import type { ScriptFailure } from './process.ts';
import { originOfEntries, rankTools } from '../builtin/tool-search.ts';
import { signatureOf } from './signature.ts';

const executeSchema = z.strictObject({
  source: z
    .string()
    .max(defaultLimits.maxSourceChars)
    .describe('JavaScript: an expression, or statements of an async function that end with `return`.'),
});

const searchSchema = z.strictObject({
  query: z.string().max(512).describe('Words about what the tool should do. Empty: the first tools by name.'),
  limit: z.int().min(1).max(25).default(8).describe('How many tools to answer at most.'),
});

/** The tools of an agent that works by script. `now`: milliseconds since the epoch. */
export function createCodeTools(pool: ScriptPool, now: () => number): readonly [execute: Tool, search: Tool] {
  return [createExecuteTool(pool, now), createSearchTool()];
}

const names = { execute: scriptToolName, search: 'code_search' } as const;

function createExecuteTool(pool: ScriptPool, now: () => number): Tool {
  return definePackageTool({
    name: names.execute,
    description:
      'Runs JavaScript that calls tools: `await tools.name({ … })`, or `tools["other-name"]`. Find names and arguments with code_search. ' +
      'Only what the script returns is seen, so compute in the script and return little. A failed call throws an Error with `.kind`. ' +
      'Tools that need a person, as approvals and questions do, cannot be called from a script: call them directly. ' +
      `At most ${defaultLimits.maxCalls} tool calls and ${defaultLimits.timeoutMs / 1_000} seconds. No network, files, modules or timers; Date and Math.random do not change during a script.`,
    inputSchema: executeSchema,
    // After a crash the script runs again from its beginning; its calls with side effects give the answers that they gave.
    effect: 'idempotent',
    executionMode: 'parallel',
    // The pool ends a script, and its wait for a process, by itself: this is for the case that it cannot.
    timeoutMs: maxProcessWaitMs + defaultLimits.timeoutMs + 2_000,
    maxResultTokens: 0,
    async execute({ source }, context) {
      const host = context as HostContext;
      // A script that runs again must be able to ask for the answers of tools that are gone by now.
      const callableNames = new Set([...callable(host).map(({ name }) => name), ...host.calledBefore]);
      const outcome = await pool.run({
        source,
        tenant: host.tenant,
        tools: [...callableNames],
        limits: defaultLimits,
        nowMs: host.startedAtMs ?? now(),
        seed: host.idempotencyKey,
        signal: host.signal,
        call: async (name, args) => await host.callTool(name, args),
      });
      if (outcome.logs.length > 0) host.progress({ logs: outcome.logs });
      if (!outcome.ok) throw new ToolError(kindOf[outcome.reason], outcome.message);
      return outcome.value === undefined
        ? 'The script ended and returned nothing: end it with `return` and a value to see one.'
        : outcome.value;
    },
  });
}

function createSearchTool(): Tool {
  return definePackageTool({
    name: names.search,
    description: 'Finds tools for scripts by what they do. Answers how each is called, as TypeScript, best first.',
    inputSchema: searchSchema,
    effect: 'read',
    execute({ query, limit }, context) {
      const host = context as HostContext;
      const { text, entries } = findTools(callable(host), query, limit);
      host.promote(entries.filter(({ gated }) => gated).map(({ name }) => name));
      return new ToolOutput(text, { origin: originOfEntries(names.search, entries) });
    },
  });
}

/** Everything but the two tools themselves: a script starts no scripts. */
function callable(host: HostContext) {
  return host.catalogue().filter(({ name }) => name !== names.execute && name !== names.search);
}

/** What the script did wrong is the model's to repair, and does not count against the tool. */
const kindOf: Readonly<Record<ScriptFailure, ToolErrorKind>> = {
  source: 'invalid_input',
  syntax: 'invalid_input',
  threw: 'invalid_input',
  stuck: 'invalid_input',
  result: 'invalid_output',
  calls: 'sandbox_violation',
  memory: 'sandbox_violation',
  crashed: 'sandbox_violation',
  timeout: 'timeout',
  aborted: 'aborted',
  busy: 'rate_limited',
  unavailable: 'sandbox_unavailable',
};

const maxAnswerChars = 24_000;

/**
 * The tools that fit the words best, and them as TypeScript declarations, best first. Without words: all, by name. The text is
 * bounded and names what was left out.
 */
export function findTools(catalogue: readonly CatalogueEntry[], query: string, limit: number) {
  const found = rankTools(catalogue, query);
  if (found.length === 0) {
    const text = `No tool fits. There are ${catalogue.length}; an empty query lists the first ones by name.`;
    return { text, entries: [] };
  }
  const shown: string[] = [];
  let room = maxAnswerChars;
  for (const { entry } of found.slice(0, limit)) {
    const signature = signatureOf(entry);
    if (shown.length > 0 && signature.length > room) break;
    room -= signature.length;
    shown.push(signature);
  }
  const entries = found.slice(0, shown.length).map(({ entry }) => entry);
  return { text: [`// ${shown.length} of ${found.length} tools that fit`, ...shown].join('\n'), entries };
}
