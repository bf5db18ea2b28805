import type { Clock } from '../../../shared/base/clock.ts';
import { artifactTtlS } from '../../../shared/contract/artifact-store.ts';
import {
  type ArtifactInfo,
  type Artifacts,
  checkNames,
  checkSize,
  keptInfo,
  rangeIn,
  runIsFull,
  type ArtifactBounds,
} from '../../../shared/state/results/artifacts.ts';

interface Kept {
  readonly bytes: Buffer;
  readonly info: ArtifactInfo;
  readonly untilMs: number;
}

/** All runs together, in bytes; the results that were kept first make room. */
const maxBytesInAll = 256 * 1024 * 1024;

/** Kept results of one process. */
export function memoryArtifacts(bounds: ArtifactBounds, clock: Clock): Artifacts {
  const runs = new Map<string, Map<string, Kept>>();
  let used = 0;

  function forget(runId: string, name: string): void {
    const run = runs.get(runId);
    used -= run?.get(name)?.bytes.length ?? 0;
    run?.delete(name);
    if (run?.size === 0) runs.delete(runId);
  }

  function makeRoom(): void {
    const now = clock.now();
    for (const [runId, run] of runs) {
      for (const [name, { untilMs }] of run) if (used > maxBytesInAll || untilMs <= now) forget(runId, name);
    }
  }

  return {
    async put(runId, name, body, info) {
      checkNames(runId, name);
      checkSize(body, bounds);
      const others = [...(runs.get(runId) ?? [])].filter(([other]) => other !== name);
      const taken = others.reduce((sum, [, { bytes }]) => sum + bytes.length, 0);
      if (taken + body.length > bounds.maxRunBytes) throw runIsFull(bounds);
      forget(runId, name);
      used += body.length;
      makeRoom();
      const kept = { ...keptInfo.parse(info), totalBytes: body.length };
      const run = runs.get(runId) ?? new Map<string, Kept>();
      runs.set(runId, run);
      run.set(name, { bytes: Buffer.from(body), info: kept, untilMs: clock.now() + artifactTtlS * 1_000 });
    },
    async read(runId, name, offset, length) {
      checkNames(runId, name);
      const kept = runs.get(runId)?.get(name);
      if (!kept || kept.untilMs <= clock.now()) return undefined;
      return { bytes: kept.bytes.subarray(...rangeIn(kept.bytes.length, offset, length)), info: kept.info };
    },
    async drop(runId) {
      checkNames(runId);
      for (const name of runs.get(runId)?.keys() ?? []) forget(runId, name);
    },
  };
}
