import { afterAll } from 'vitest';
import { systemClock, type Clock } from '../../../../src/shared/base/clock.ts';
import { silentLog } from '../../../../src/shared/base/log.ts';
import type { ScriptOutcome, ScriptRequest } from '../../../../src/worker/tools/code-mode/conversation.ts';
import { defaultLimits, type ScriptLimits } from '../../../../src/worker/tools/code-mode/protocol.ts';
import { ScriptPool } from '../../../../src/worker/tools/code-mode/pool.ts';

type Overrides = Partial<Omit<ScriptRequest, 'limits'>> & { readonly limits?: Partial<ScriptLimits> };

export interface ScriptWorld {
  readonly pool: ScriptPool;
  run(source: string, overrides?: Overrides): Promise<ScriptOutcome>;
}

/** A pool for the tests of a file. Its scripts have a tool `echo` that answers what it is given. */
export function scriptWorld({ size = 1, clock = systemClock }: { size?: number; clock?: Clock } = {}): ScriptWorld {
  const pool = new ScriptPool({ size, log: silentLog, clock });
  afterAll(() => pool[Symbol.asyncDispose]());
  return {
    pool,
    run: (source, { limits, ...overrides } = {}) =>
      pool.run({
        source,
        tenant: 'acme',
        tools: ['echo', 'with-dash'],
        nowMs: 1_700_000_000_000,
        seed: 'key',
        signal: new AbortController().signal,
        call: (_name, args) => Promise.resolve({ ok: true, value: args }),
        ...overrides,
        limits: { ...defaultLimits, ...limits },
      }),
  };
}
