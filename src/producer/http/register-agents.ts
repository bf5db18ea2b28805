import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { agentView, type AgentView } from '../../shared/contract/agent/agent.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Log } from '../../shared/base/log.ts';
import { cutText } from '../../shared/base/redact.ts';
import type { Millrace } from '../client/millrace.ts';

const listTimeoutMs = 20_000;
const maxListBytes = 4 * 1024 * 1024;

/**
 * Announces the agents of a folder, so that runs for them are accepted before the first worker is up. Agent modules are
 * code, so a worker process reads them, not this one. Never rejects: workers announce their agents themselves, and
 * without any everything still works.
 */
export async function registerAgentsOf(folder: string, mill: Millrace, log: Log, signal: AbortSignal): Promise<void> {
  if (!existsSync(folder)) return;
  try {
    const { agents, problems } = await listAgents(folder, signal);
    await mill.registerAgents(agents);
    if (problems) log.warn({ problems }, 'some agents cannot be loaded');
  } catch (error) {
    if (!signal.aborted) log.warn({ err: error }, 'the agents of this producer are not announced');
  }
}

const workerEntry = fileURLToPath(new URL(`../../worker/main${extname(import.meta.url)}`, import.meta.url));

/** The lister prints the agents that it could load also when there are problems with others, which it then exits with. */
async function listAgents(
  folder: string,
  signal: AbortSignal,
): Promise<{ agents: readonly AgentView[]; problems: string }> {
  const { promise, resolve } = Promise.withResolvers<{ error: Error | null; stdout: string; stderr: string }>();
  const options = { signal, timeout: listTimeoutMs, maxBuffer: maxListBytes, killSignal: 'SIGKILL' } as const;
  execFile(process.execPath, [workerEntry, 'agents', folder, '--json'], options, (error, stdout, stderr) => {
    resolve({ error, stdout, stderr });
  });
  const { error, stdout, stderr } = await promise;
  // Whatever an agent module prints while it is loaded comes first.
  const line = stdout.trimEnd().split('\n').at(-1) ?? '';
  const listed = z.array(agentView).safeParse(parseJson(line));
  if (!listed.success)
    throw new RunError('agent_manifest_invalid', cutText(stderr || 'the lister printed no agents', 2_048), {
      cause: error,
    });
  return { agents: listed.data, problems: error ? cutText(stderr, 2_048) : '' };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
