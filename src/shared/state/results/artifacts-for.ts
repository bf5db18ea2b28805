import { repeat, type Clock } from '../../base/clock.ts';
import type { Config } from '../../contract/config.ts';
import { assertNever } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { KeySpace } from '../keys.ts';
import { afterErasure } from './after-erasure.ts';
import { type ProgressNotes, redisProgress } from './progress-notes.ts';
import type { Artifacts, Swept } from './artifacts.ts';
import { folderArtifacts, announceFolder, probeFolder } from './folder-artifacts.ts';
import { redisArtifacts } from './redis-artifacts.ts';
import { s3Artifacts } from './s3-artifacts.ts';
import { openBucket } from './s3-bucket.ts';
import { named } from '../errors.ts';
import type { Blobs } from '../files/blobs.ts';
import { folderBlobs } from '../files/folder-blobs.ts';
import type { BlobsDeps } from '../files/open-blobs.ts';
import { outerBlobs, type OuterBlobs } from '../files/outer-blobs.ts';
import { redisBlobs } from '../files/redis-blobs.ts';
import { s3Blobs } from '../files/s3-blobs.ts';

const hourMs = 3_600_000;
/** One worker of the fleet sweeps results, and not more often than this. */
const sweepEveryS = 6 * 3_600;
/** A little less than an hour: the process that swept last is often the first to be due again. */
const blobSweepEveryS = 3_000;
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
  /** The bytes of files and of large media. */
  readonly blobs: Blobs;
}

/** The stores that the configuration names. Throws `invalid_config` for a folder or a bucket that cannot be written to. */
export async function artifactsFor(config: ArtifactSettings, deps: ArtifactsDeps): Promise<OpenedArtifacts> {
  const opened = await openStores(config, deps);
  return { ...opened, ...afterErasure(opened, config.ARTIFACT_STORE, deps) };
}

async function openStores(config: ArtifactSettings, deps: ArtifactsDeps): Promise<OpenedArtifacts> {
  const { ARTIFACT_STORE: store, ARTIFACT_MAX_BYTES: maxBytes, ARTIFACT_RUN_MAX_BYTES: maxRunBytes } = config;
  const bounds = { maxBytes, maxRunBytes };
  const ttlS = config.PROGRESS_RETENTION_DAYS * daySeconds;
  const reached: BlobsDeps & { readonly log: Log } = { ...deps, reach: (work) => named('blobs', work(deps.redis)) };
  switch (store.kind) {
    case 'redis': {
      const artifacts = redisArtifacts({ ...deps, bounds });
      const blobs = redisBlobs(reached);
      return { artifacts, progress: redisProgress({ ...deps, ttlS }), blobs, async [Symbol.asyncDispose]() {} };
    }
    case 'folder': {
      const { root } = store;
      await probeFolder(root);
      const artifacts = folderArtifacts({ root, bounds, progressTtlS: ttlS });
      const blobs = outerBlobs(folderBlobs(root), reached);
      const chores = everyHour(async () => {
        await announceFolder(root, reached);
        await sweepIfDue(artifacts, blobs, deps);
      }, deps.log);
      return { artifacts, progress: redisProgress({ ...deps, ttlS, root }), blobs, ...chores };
    }
    case 's3': {
      const bucket = await openBucket(store);
      const artifacts = s3Artifacts(bucket, bounds);
      const blobs = outerBlobs(s3Blobs(bucket), reached);
      const chores = everyHour(() => sweepIfDue(artifacts, blobs, deps), deps.log);
      return {
        artifacts,
        progress: redisProgress({ ...deps, ttlS }),
        blobs,
        async [Symbol.asyncDispose]() {
          await chores[Symbol.asyncDispose]();
          bucket[Symbol.dispose]();
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

/** What has passed its end goes every hour, and what has none is looked for with the results: both need a list of everything. */
async function sweepIfDue(artifacts: Swept, blobs: OuterBlobs, { redis, keys, clock }: ArtifactsDeps): Promise<void> {
  const isMine = async (key: string, everyS: number) => (await redis.set(key, 'swept', 'EX', everyS, 'NX')) !== null;
  if (await isMine(keys.blobSweep, blobSweepEveryS)) await blobs.sweep();
  if (!(await isMine(keys.artifactSweep, sweepEveryS))) return;
  await artifacts.sweep(clock.now());
  await blobs.sweepStrays();
}
