import { setTimeout as delay } from 'node:timers/promises';
import { RunError, type Millrace, type RunView } from '../../src/producer/index.ts';
import type { seeded } from './seeded.ts';

type Random = ReturnType<typeof seeded>;

/** Decides what is asked, after a while. */
const lookEveryMs = 300;

/** People who say yes, and sometimes no, a moment after they are asked. */
export async function decideUntil(signal: AbortSignal, mill: Millrace, random: Random): Promise<void> {
  while (!signal.aborted) {
    const { approvals } = await mill.approvals().catch(() => ({ approvals: [] }));
    for (const { runId } of approvals) {
      const run = mill.run(runId);
      await (random.below(5) === 0 ? run.deny({ reason: 'no' }) : run.approve()).catch(onlyRefused);
    }
    await delay(lookEveryMs, undefined, { signal }).catch(() => {});
  }
}

/** Cancels a run after a while, in whatever state it is by then. */
export async function stopAfter(ms: number, mill: Millrace, runId: string): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
  await mill.cancel(runId).catch(onlyRefused);
}

function onlyRefused(error: unknown): void {
  if (!(error instanceof RunError)) throw error;
}

/** Every run of the tenant. */
export async function everyRun(mill: Millrace): Promise<readonly RunView[]> {
  const all: RunView[] = [];
  for (let cursor: string | undefined; ;) {
    const page: Awaited<ReturnType<Millrace['list']>> = await mill.list({ limit: 100, ...(cursor && { cursor }) });
    all.push(...page.runs);
    if (page.cursor === undefined) return all;
    cursor = page.cursor;
  }
}
