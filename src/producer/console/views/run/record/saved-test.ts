/** What names a test and finds its export. */
export interface SavedTest {
  /** Of both files, without what follows the first dot. */
  readonly name: string;
  readonly agent: string;
  readonly runId: string;
}

/** A file for vitest that replays the export beside it against the agent as it is then. */
export function savedTest({ name, agent, runId }: SavedTest): string {
  return `// Replays run ${runId}, offline: the recorded answers of the model and the recorded results of its tools.
import { agentFrom, replayExport } from 'millrace/testing';
import { test } from 'vitest';
void [agentFrom, replayExport, test, '${name}', '${agent}'];
`;
}
