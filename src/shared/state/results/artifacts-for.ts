import { repeat, type Clock } from '../../base/clock.ts';
import type { Config } from '../../contract/config.ts';
import { assertNever } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { KeySpace } from '../keys.ts';
import { type ProgressNotes, redisProgress } from './progress-notes.ts';
import type { Artifacts, Swept } from './artifacts.ts';
import { folderArtifacts, announceFolder, probeFolder } from './folder-artifacts.ts';
import { redisArtifacts } from './redis-artifacts.ts';
import { openS3Artifacts } from './s3-artifacts.ts';

const hourMs = 3_600_000;
/** One worker of the fleet sweeps, and not more often than this. */
const sweepEveryS = 6 * 3_600;
const daySeconds = 86_400;

type ArtifactSettings = Pick<
  Config,
  'ARTIFACT_STORE' | 'ARTIFACT_MAX_BYTES' | 'ARTIFACT_RUN_MAX_BYTES' | 'PROGRESS_RETENTION_DAYS'
>;

export interface ArtifactsDeps extends KeySpace {
  readonly clock: Clock;
  readonly log: Log;
}

/** What runs leave behind, until it is disposed of. */
export interface OpenedArtifacts extends AsyncDisposable {
  readonly artifacts: Artifacts;
  readonly progress: ProgressNotes;
}

/** The stores that the configuration names. Throws `invalid_config` for a folder or a bucket that cannot be written to. */
export async function artifactsFor(config: ArtifactSettings, deps: ArtifactsDeps): Promise<OpenedArtifacts> {
  const { ARTIFACT_STORE: store, ARTIFACT_MAX_BYTES: maxBytes, ARTIFACT_RUN_MAX_BYTES: maxRunBytes } = config;
  const bounds = { maxBytes, maxRunBytes };
  const ttlS = config.PROGRESS_RETENTION_DAYS * daySeconds;
  switch (store.kind) {
    case 'redis': {
      const artifacts = redisArtifacts({ ...deps, bounds });
      return { artifacts, progress: redisProgress({ ...deps, ttlS }), async [Symbol.asyncDispose]() {} };
    }
    case 'folder': {
      const { root } = store;
      await probeFolder(root);
      const artifacts = folderArtifacts({ root, bounds, progressTtlS: ttlS });
      const chores = everyHour(async () => {
        await announceFolder(root, deps);
        await sweepIfDue(artifacts, deps);
      }, deps.log);
      return { artifacts, progress: redisProgress({ ...deps, ttlS, root }), ...chores };
    }
    case 's3': {
      const artifacts = await openS3Artifacts({ store, bounds });
      const chores = everyHour(() => sweepIfDue(artifacts, deps), deps.log);
      return {
        artifacts,
        progress: redisProgress({ ...deps, ttlS }),
        async [Symbol.asyncDispose]() {
          await chores[Symbol.asyncDispose]();
          artifacts[Symbol.dispose]();
        },
      };
    }
    default:
      return assertNever(store);
  }
}

/** Now and every hour. A failure is logged. Disposing waits for one that is under way. */
function everyHour(chore: () => Promise<void>, log: Log): AsyncDisposable {
  const failed = (error: unknown) => log.warn({ err: error }, 'care of kept results failed');
  const first = chore().catch(failed);
  const later = repeat(hourMs, () => first.then(chore), failed);
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all([first, later[Symbol.asyncDispose]()]);
    },
  };
}

async function sweepIfDue(artifacts: Swept, { redis, keys, clock }: ArtifactsDeps): Promise<void> {
  const mine = await redis.set(keys.artifactSweep, 'swept', 'EX', sweepEveryS, 'NX');
  if (mine !== null) await artifacts.sweep(clock.now());
}
