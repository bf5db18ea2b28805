import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isCandidate, versionOf } from './files.ts';
import { packRelease, releaseFiles } from './pack.ts';
import { read, runAloud } from './run.ts';

/** What can be uploaded, in this order: the image and the chart name a version that npm has. */
export const uploads = ['npm', 'image', 'chart'] as const;
export type Upload = (typeof uploads)[number];

type Env = Readonly<Record<string, string | undefined>>;

export interface UploadOptions {
  readonly parts: readonly Upload[];
  /** Pack, say what would be run, and upload nothing. */
  readonly dryRun: boolean;
  readonly env: Env;
  readonly say: (text: string) => void;
}

/** Packs and uploads the version that is checked out. What is missing is found before the first upload. */
export async function uploadRelease(root: string, { parts, dryRun, env, say }: UploadOptions): Promise<void> {
  const version = versionOf(readFileSync(join(root, 'package.json'), 'utf8'));
  const tags = read(root, 'git', ['tag', '--points-at', 'HEAD']).split('\n');
  if (!tags.includes(`v${version}`)) throw new Error(`check out v${version} first: what is uploaded is what is tagged`);
  const changed = read(root, 'git', ['status', '--porcelain']);
  if (changed !== '') throw new Error(`there are changes beside v${version}:\n${changed}`);
  const revision = read(root, 'git', ['rev-parse', 'HEAD']);
  const commands = uploadCommands(parts, { version, revision, ...releaseFiles(root, version) }, env);
  const { noChart } = await packRelease(root, version);
  if (noChart !== undefined && parts.includes('chart')) throw new Error(`the chart cannot be packed: ${noChart}`);
  for (const [command = '', ...args] of commands) {
    say([command, ...args].join(' '));
    if (!dryRun) runAloud(root, command, args);
  }
}

interface Release {
  readonly version: string;
  readonly revision: string;
  /** Paths of the packed files. */
  readonly npm: string;
  readonly chart: string;
}

/** The command that uploads each part. Throws when the environment does not say where to. */
export function uploadCommands(parts: readonly Upload[], release: Release, env: Env): readonly (readonly string[])[] {
  return parts.map((part) => commandsOf[part](release, env));
}

const commandsOf: Readonly<Record<Upload, (release: Release, env: Env) => readonly string[]>> = {
  npm: ({ version, npm }) => {
    const tag = isCandidate(version) ? 'next' : 'latest';
    return ['npm', 'publish', npm, '--provenance', '--access', 'public', '--tag', tag];
  },
  image: ({ version, revision }, env) => {
    const image = setting(env, 'RELEASE_IMAGE', 'the name of the image, like registry.example/millrace');
    const tags = isCandidate(version) ? [version] : [version, 'latest'];
    const names = tags.map((tag) => `--tag ${image}:${tag}`).join(' ');
    const about = `--build-arg VERSION=${version} --build-arg REVISION=${revision}`;
    const proofs = '--provenance=mode=max --sbom=true';
    return `docker buildx build --platform linux/amd64,linux/arm64 ${about} ${proofs} ${names} --push .`.split(' ');
  },
  chart: ({ chart }, env) => {
    const registry = setting(env, 'RELEASE_CHARTS', 'where charts go, like oci://registry.example/charts');
    return ['helm', 'push', chart, registry];
  },
};

function setting(env: Env, name: string, means: string): string {
  const value = env[name];
  if (!value) throw new Error(`${name} is not set: ${means}`);
  return value;
}
