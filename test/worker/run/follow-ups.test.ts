import { expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import { followUpId } from '../../../src/shared/state/run/control/inbox.ts';
import { LlmError } from '../../../src/worker/llm/errors.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import type { Ports } from '../../../src/worker/run/ports.ts';
import { makeJobs } from './job-world.ts';

const agent = defineAgent({ id: 'support', model: 'm' });
const at = '2026-01-02T03:04:05.000Z';

/** A run that reads one inbox message, and gets another one while its last model call goes on. */
function makeWorld({ ends }: { readonly ends: 'completed' | 'failed' }) {
  let calls = 0;
  const provider = createScriptedProvider(() => {
    calls++;
    steer(calls === 1 ? 'read' : 'late');
    if (calls === 2 && ends === 'failed') throw new LlmError('auth', 'scripted', 'no');
    return { text: `answer ${calls}` };
  });
  const jobs = makeJobs(agent, provider);
  const { ports } = jobs;
  const steer = (id: string) => ports.inbox.steer(runId, { id, text: id, at });
  const runId = jobs.submit({ input: 'Where is order 7?', thread: 'talk' });
  return { ...jobs, ports: ports as { -readonly [K in keyof Ports]: Ports[K] }, runId, steer };
}

const killed = new RunError('queue_unavailable', 'the process is gone');

test.each(['completed', 'failed'] as const)(
  'a worker that dies right after a run has %s: the message that the run read is not sent again, and the late one is sent once',
  async (ends) => {
    const world = makeWorld({ ends });
    const { ports, runId } = world;
    const load = async (id: string) => await world.load(id);
    const deliver = async (jobTry: number) => await world.deliver(runId, jobTry);
    const { inbox } = ports;
    // The message that the run read is still in its inbox when the run ends, until the next delivery drops it.
    const dying = {
      ...inbox,
      drop: async () => {},
      read: async (id: string) => {
        if ((await load(id))?.endedAt) throw killed;
        return (await inbox.read(id)).filter((message) => ends === 'failed' || message.id === 'read');
      },
    };
    ports.inbox = dying;
    await expect(deliver(1)).rejects.toThrow(killed);
    expect(await load(runId)).toMatchObject({ status: ends, inboxRead: ['read'] });
    expect((await inbox.read(runId)).map(({ id }) => id)).toEqual(['read', 'late']);

    ports.inbox = inbox;
    expect(await deliver(2)).toEqual({ kind: 'skipped', reason: 'terminal' });
    expect(await load(followUpId(runId, 'read'))).toBeUndefined();
    expect((await load(followUpId(runId, 'late')))?.request.input).toBe('late');
    expect(await inbox.read(runId)).toEqual([]);
  },
);
