import { isAbsolute, normalize } from 'node:path';

/** Where what runs leave behind is kept. */
export type ArtifactStore =
  | { readonly kind: 'redis' }
  | { readonly kind: 'folder'; readonly root: string }
  | {
      readonly kind: 's3';
      readonly bucket: string;
      /** Without slashes at its ends; empty for none. */
      readonly prefix: string;
      readonly endpoint?: string;
      readonly region?: string;
    };

/** How long kept results stay unless they are removed, in seconds. */
export const artifactTtlS = 7 * 86_400;

/** Reads `ARTIFACT_STORE`. Answers a text for what is wrong with it. */
export function parseArtifactStore(text: string): ArtifactStore | string {
  if (text === 'redis') return { kind: 'redis' };
  if (text.startsWith('file:')) return folderOf(text);
  if (text.startsWith('s3:')) return bucketOf(text);
  return 'must be redis, file:/path or s3://bucket/prefix';
}

function folderOf(text: string): ArtifactStore | string {
  const path = text.replace(/^file:(\/\/(?=\/))?/, '');
  if (!isAbsolute(path) || path.startsWith('//')) return 'must name an absolute folder, like file:/var/lib/millrace';
  const root = normalize(path).replace(/(?<=.)\/$/, '');
  return root === '/' ? 'must name a folder of its own, not the root of the file system' : { kind: 'folder', root };
}

function bucketOf(text: string): ArtifactStore | string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^[a-z0-9][a-z0-9.-]{1,62}$/.test(url.host))
    return 'must be s3://bucket/prefix?endpoint=…&region=…, with a bucket of 3 to 63 lowercase letters, digits, . or -';
  if (url.username || url.password)
    return 'must hold no credentials: they come from the environment, for instance AWS_ACCESS_KEY_ID';
  const unknown = [...url.searchParams.keys()].filter((name) => name !== 'endpoint' && name !== 'region');
  if (unknown.length > 0) return 'takes the parameters endpoint and region, and no others';
  const [endpoint, region] = [url.searchParams.get('endpoint'), url.searchParams.get('region')];
  if (endpoint !== null && !/^https?:$/.test(URL.canParse(endpoint) ? new URL(endpoint).protocol : ''))
    return 'must name an http:// or https:// endpoint';
  const prefix = url.pathname.replaceAll(/^\/+|\/+$/g, '');
  if (!/^[A-Za-z0-9._/-]*$/.test(prefix)) return 'must have a prefix of letters, digits, . _ - and /';
  return {
    kind: 's3',
    bucket: url.host,
    prefix,
    ...(endpoint !== null && { endpoint }),
    ...(region !== null && { region }),
  };
}
