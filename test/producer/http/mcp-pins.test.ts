import { expect, test } from 'vitest';
import { serverPins } from '../../../src/shared/contract/mcp-pins.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { redisToolPins } from '../../../src/shared/state/pins/tool-pins.ts';
import { offered, server } from '../../contract/tool-pins.ts';
import { millrace, settings } from '../cli/support/cli-process.ts';
import { serverWorld } from './server-world.ts';

const path = '/v1/mcp/pins';
const old = offered('read');
const changed = offered('read', 'Reads, and sends it away.');

/** A server that has changed one tool and added another, in the eyes of a worker. */
async function changedServer() {
  const world = await serverWorld();
  const pins = redisToolPins({ redis: world.redis, keys: world.keys, clock: systemClock });
  await pins.check('default', server, [old, offered('write')]);
  await pins.check('default', server, [changed, offered('write'), offered('more')]);
  return {
    ...world,
    pins,
    accept: (name: string, body: object = {}) => world.send('POST', `${path}/${name}/accept`, body),
  };
}

test('pins are listed with what was accepted and what has changed', async () => {
  const { send } = await changedServer();
  const { status, body } = await send('GET', path);
  expect(status).toBe(200);
  const [listed] = body.servers;
  expect(serverPins.parse(listed)).toEqual(listed);
  expect(listed).toMatchObject({ server: 'files', id: server.id, target: 'npx server-files /data' });
  expect(listed.tools).toMatchObject([
    { tool: 'more', changed: { description: 'The tool more.' } },
    { tool: 'read', accepted: { description: 'The tool read.' }, changed: { description: changed.description } },
    { tool: 'write', accepted: { description: 'The tool write.' } },
  ]);
});

test('a change is accepted by the name or the id of its server, for a tool or for all', async () => {
  const { accept, pins } = await changedServer();
  const one = await accept('files', { tool: 'read', digest: changed.digest });
  expect(one).toMatchObject({ status: 200, body: { accepted: ['read'] } });
  expect(one.body.pins.tools[1]).toMatchObject({ tool: 'read', accepted: { by: 'local', digest: changed.digest } });
  expect((await accept(server.id)).body.accepted).toEqual(['more']);
  expect((await accept('files')).body.accepted).toEqual([]);
  expect((await accept('files', { tool: 'read', digest: changed.digest })).body.accepted).toEqual([]);
  const verdicts = await pins.check('default', server, [changed, offered('more')]);
  expect(verdicts).toEqual([{ kind: 'accepted' }, { kind: 'accepted' }]);
});

test('what is not there, or not what was meant, is refused in words that go on', async () => {
  const { accept, pins } = await changedServer();
  expect(await accept('file')).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } });
  expect((await accept('file')).body.error.message).toContain('files');
  expect(await accept('files', { tool: 'reed' })).toMatchObject({
    status: 404,
    body: { error: { code: 'not_found' } },
  });
  const other = await accept('files', { tool: 'read', digest: old.digest.replaceAll(/./g, 'a') });
  expect(other).toMatchObject({ status: 400, body: { error: { code: 'validation' } } });
  expect(other.body.error.message).toContain('read its pins again');
  expect((await accept('files', { digest: old.digest })).status).toBe(400);
  expect((await accept('files', { tools: ['read'] })).status).toBe(400);
  await pins.check('default', { ...server, id: 'b'.repeat(32), target: 'other' }, []);
  const twice = await accept('files');
  expect(twice.status).toBe(400);
  expect(twice.body.error.message).toContain(`${server.id} (npx server-files /data)`);
});

test('the commands show and accept the same', async () => {
  const { prefix } = await changedServer();
  const env = settings(prefix);
  const listed = await millrace(['mcp', 'pins'], { env });
  expect(listed.stdout).toContain('files  3 tools, 2 changed');
  expect(listed.stdout).toContain('read: description\n    - The tool read.\n    + Reads, and sends it away.');
  expect(listed.stdout).toContain('more: was not there');
  const accepted = await millrace(['mcp', 'accept', 'files', 'read', '--by', 'ada'], { env });
  expect([accepted.code, accepted.stdout]).toEqual([0, 'files: accepted read\n']);
  const json = await millrace(['mcp', 'pins', '--json'], { env });
  expect(JSON.parse(json.stdout)[0].tools[1]).toMatchObject({ accepted: { by: 'ada' } });
  expect((await millrace(['mcp', 'accept', 'files'], { env })).stdout).toBe('files: accepted more\n');
  const nothing = await millrace(['mcp', 'accept', 'files'], { env });
  expect([nothing.code, nothing.stderr]).toEqual([0, 'Nothing of files waits to be accepted.\n']);
  const wrong = await millrace(['mcp', 'accept', 'fils'], { env });
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('files')]);
});

test('nothing is listed where nothing is pinned', async () => {
  const { send, prefix } = await serverWorld();
  expect((await send('GET', path)).body).toEqual({ servers: [] });
  const none = await millrace(['mcp', 'pins'], { env: settings(prefix) });
  expect([none.code, none.stderr]).toEqual([0, expect.stringContaining('No MCP server has been used')]);
});
