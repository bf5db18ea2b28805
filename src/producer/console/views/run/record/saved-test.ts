import { literalOf } from './copy-as.ts';

/** What names a test, and finds its export beside it. */
export interface SavedTest {
  /** Of the file of the export. */
  readonly exportName: string;
  readonly agent: string;
  readonly runId: string;
}

/** A file for vitest that replays the export beside it against the agent as it is then. */
export function savedTest({ exportName, agent, runId }: SavedTest): string {
  return `import { join } from 'node:path';
import { agentFrom, assertNoDepartures, replayExport } from 'millrace/testing';
import { test } from 'vitest';

/** The folder of the agents, from where the tests are started. */
const agents = 'agents';

// Offline: models and tools answer what they answered then. It fails when the agent would go another way.
test(${literalOf(`${agent} does what it did in run ${runId}`)}, async () => {
  const agent = await agentFrom(agents, ${literalOf(agent)});
  assertNoDepartures(await replayExport(join(import.meta.dirname, ${literalOf(exportName)}), agent));
});
`;
}
