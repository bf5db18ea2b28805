import { createHash } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { Millrace } from '../../src/producer/client/millrace.ts';
import type { ConsoleSessions } from '../../src/shared/state/console-sessions.ts';
import { ProducerMetrics } from '../../src/producer/http/metrics.ts';
import { createServer } from '../../src/producer/http/server.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { Redactor } from '../../src/shared/base/redact.ts';
import { parseApiKeys } from '../../src/shared/contract/config.ts';
import { commands, producers } from '../producer/cli/support/cli-process.ts';
import { worldForm } from '../producer/cli/options/client.ts';

/** Tenants that a test may have a key of, beside `default`. */
const tenants = ['other', 'stranger', 'acme'];

/** From here on `clientWorld` gives clients over HTTP, each with producers of its own on the client over Redis. */
export function speakHttp(): void {
  globalThis.fetch = withoutOwnIds;
  commands.speakHttp = true;
  worldForm.of = async (mill, prefix) => {
    const open = await listen(mill, '');
    const advancing = await mill.batches.advance();
    onTestFinished(() => advancing[Symbol.asyncDispose]());
    producers.set(prefix, open);
    const guarded = await listen(mill, tenants.map((tenant) => `${digestOf(keyFor(tenant))}:${tenant}:*`).join(','));
    const client = new Millrace({ url: open });
    onTestFinished(() => client.close());
    return Object.assign(client, {
      // What only a process beside Redis may do.
      forTenant: (tenant: string) => {
        mill.forTenant(tenant);
        return new Millrace({ url: guarded, apiKey: keyFor(tenant) });
      },
      registerAgents: mill.registerAgents.bind(mill),
      forgetAgents: mill.forgetAgents.bind(mill),
    });
  };
}

const { fetch: send } = globalThis;
const ownIds = /,"executionId":"http-[0-9a-f]{32}"|"executionId":"http-[0-9a-f]{32}",?/g;
const answers = new Map<string, Response>();

/**
 * Sends requests without the execution ids that the client makes where none is given: with one a run has an event more, and is kept
 * for longer, which the tests of the other form do not expect. Sent again, such a request is answered as before.
 */
const withoutOwnIds: typeof fetch = async (input, init = {}) => {
  const { body } = init;
  const [id] = typeof body === 'string' ? (body.match(ownIds) ?? []) : [];
  if (typeof body !== 'string' || id === undefined) return await send(input, init);
  const answer = answers.get(id) ?? (await send(input, { ...init, body: body.replaceAll(ownIds, '') }));
  answers.set(id, answer);
  return answer.clone();
};

/** A producer without keys where one was before. */
export async function listenAgain(mill: Millrace, port: number): Promise<string> {
  return await listen(mill, '', port);
}

async function listen(mill: Millrace, apiKeys: string, port = 0): Promise<string> {
  const server = await createServer({
    mill,
    config: { MILLRACE_DURABILITY: 'any' },
    log: silentLog,
    redactor: new Redactor([]),
    apiKeys: apiKeys === '' ? [] : parseApiKeys(apiKeys).keys,
    metrics: new ProducerMetrics(() => mill.queueDepths()),
    // Nobody logs in to the console here.
    sessions: {} as ConsoleSessions,
  });
  await server.app.listen({ host: '127.0.0.1', port });
  onTestFinished(() => server.close());
  return `http://127.0.0.1:${(server.app.server.address() as AddressInfo).port}`;
}

function keyFor(tenant: string): string {
  return `key-of-${tenant}`;
}

function digestOf(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}
