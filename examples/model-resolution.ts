// Which model a request gets: the first wish that is not blank, then a check that fails closed. Run it with
// `npm run example examples/model-resolution.ts gpt-5.2`, and with ROUTER_URL for a server whose `/v1/models` counts as well.

import {
  createAgent,
  createModelCatalogue,
  defineAgent,
  resolveChatModel,
  resolveRouterBaseUrl,
  validateChatModelId,
} from 'millrace/worker';

const router = process.env['ROUTER_URL'];
const wishes = [
  { model: process.argv[2], source: 'request' },
  { model: process.env['WORKSPACE_MODEL'], source: 'workspace' },
  { model: '   ', source: 'profile' },
] as const;
const { model, source } = resolveChatModel(wishes, 'gpt-5.2-mini');
console.log(`${model}, from ${source}`);

// One copy of the catalogue for all requests of this process.
const catalogue =
  router === undefined ? undefined : createModelCatalogue({ base: resolveRouterBaseUrl(router), ttlMs: 60_000 });
const verdict = await validateChatModelId(model, {
  allowlist: ['gpt-5.2-mini', 'gpt-5.2'],
  ...(catalogue && { catalogue }),
});
if (!verdict.ok) {
  console.log(`refused, ${verdict.reason}: ${verdict.message}${verdict.retryable ? ' (try again later)' : ''}`);
  process.exit(1);
}

const agent = createAgent(defineAgent({ id: 'guide', model: verdict.model }));
const { status, text } = await agent.run('Good morning.');
console.log(`${status}: ${text}`);
