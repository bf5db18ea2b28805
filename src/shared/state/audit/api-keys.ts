import type { ApiKey } from '../../contract/config.ts';
import type { KeySpace } from '../keys.ts';
import { loadScript, runScript } from '../script.ts';
import { addDeed } from './audit-stream.ts';

const script = loadScript(import.meta.url, './note-keys.lua');

/** Longer than the entries about them. */
const rememberedS = 400 * 86_400;

type Change = 'added' | 'removed' | 'changed';

/**
 * Adds to the audit log of each tenant how its API keys differ from those that a producer was last started with. Of producers
 * that start together one adds it. Throws `queue_unavailable`.
 */
export async function auditApiKeys(space: KeySpace, apiKeys: readonly ApiKey[]): Promise<void> {
  const { redis, keys } = space;
  const known = apiKeys.flatMap(({ sha256, tenant, scopes }) => [
    `key:${sha256.slice(0, 8)}`,
    [tenant, ...[...scopes].sort()].join(' '),
  ]);
  const doing = 'audit of API keys';
  const changes = (await runScript(redis, script, [keys.apiKeys], [rememberedS, ...known], { doing })) as readonly [
    Change,
    string,
    string,
  ][];
  const at = new Date().toISOString();
  for (const [change, key, about] of changes) {
    const [tenant = '', ...scopes] = about.split(' ');
    await addDeed(space, tenant, { kind: 'keys', at, change, key, scopes });
  }
}
