import { expect, inject, test } from 'vitest';
import { flowRule } from '../src/shared/contract/flow.ts';
import { ownCorpus, readCorpus } from './guards/read-corpus.ts';
import { callsOf, stepsOf } from './guards/scenario.ts';
import { millrace } from './producer/cli/support/cli-process.ts';
import { argumentsOf, docsPage, pageAgents, pageCommands, pageFiles } from './support/docs-page.ts';
import { firstCells } from './support/markdown.ts';
import { testPrefix } from './support/redis.ts';

const page = docsPage('security.md');

test('the agent of the page is one, and its policy fits its tools', async () => {
  const { folder } = pageFiles(page);
  const { agents, problems } = await pageAgents(folder);
  expect(problems).toEqual([]);
  expect(agents.get('mailer')?.definition.dataFlowPolicy).toMatchObject({
    mode: 'enforce',
    tools: { send_mail: { arguments: { to: { from: ['user', 'tool:find_contact'] } } } },
  });
  expect(agents.get('mailer')?.tools.find(({ name }) => name === 'read_mail')?.trust).toBe('external');
});

test('every rule is explained, and every command of the week is one', async () => {
  expect(new Set(firstCells(page, 'The rules'))).toEqual(new Set(flowRule.options));
  const env = { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: testPrefix() };
  const lines = pageCommands(page, 'millrace');
  expect(lines.length).toBeGreaterThan(5);
  for (const line of lines.filter((one) => !one.includes('--follow')))
    expect(await millrace(argumentsOf(line), { env }), line).toMatchObject({ code: 0 });
});

test('the figures of the page are those of the corpus', () => {
  const scenarios = readCorpus(ownCorpus);
  const calls = scenarios.flatMap((one) =>
    one.agents.flatMap((agent) =>
      stepsOf(one, agent)
        .flatMap(callsOf)
        .map(({ tool, label }) => ({
          label,
          tool: agent.tools.find(({ name }) => name === tool),
          policy: agent.policy,
        })),
    ),
  );
  const count = (label: string) =>
    calls.filter((call) => call.label === label && (label === 'attack' || isSink(call))).length;
  expect(page).toContain(`\n${scenarios.length} scenarios of our own`);
  expect(page).toMatch(new RegExp(`\\| ${count('attack')} attack calls +\\|`));
  expect(page).toMatch(new RegExp(`\\| ${count('wanted')} wanted calls +\\|`));
});

function isSink({
  tool,
  policy,
}: {
  tool?: { name: string; effect: string } | undefined;
  policy: Record<string, unknown>;
}) {
  const own = (policy['tools'] as Record<string, { sink?: boolean }> | undefined)?.[tool?.name ?? ''];
  return own?.sink ?? tool?.effect !== 'read';
}
