import { expect, test } from 'vitest';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { createToolkit } from '../../../src/worker/agents/toolkit.ts';
import { createAskAgentTools, createHandoffTool } from '../../../src/worker/tools/builtin/agents.ts';
import { createReadResultTool } from '../../../src/worker/tools/builtin/read-result.ts';
import { createReadSkillTool } from '../../../src/worker/tools/builtin/read-skill.ts';
import { createToolSearch } from '../../../src/worker/tools/builtin/tool-search.ts';
import { isFreeForServers, isReservedName } from '../../../src/worker/tools/names.ts';

test('no server may call its tool like a tool of this package, and no code like one that is added by itself', async () => {
  const secrets = { get: () => undefined, values: () => [] };
  const options = { secrets, redactor: new Redactor(), log: silentLog, clock: systemClock };
  await using toolkit = createToolkit({ config: parseConfig({}), ...options });
  const { codeTools = [] } = toolkit.services({
    artifacts: {} as never,
    progress: {} as never,
    breakers: {} as never,
    pins: {} as never,
  });
  const skill = { name: 's', description: 'd', trust: 'trusted' as const, allowedTools: [], folder: '/' };
  const added = [
    ...codeTools,
    ...createAskAgentTools([]),
    createReadResultTool([]),
    createReadSkillTool([skill]),
    createToolSearch(),
  ].map(({ name }) => name);
  expect(added.filter((name) => !isReservedName(name))).toEqual([]);
  const all = [...added, ...toolkit.offer.names, 'notify_user', createHandoffTool('bank', undefined).name];
  expect(all.filter(isFreeForServers)).toEqual([]);
});
