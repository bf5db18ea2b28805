import { describe, expect, test } from 'vitest';
import { auditRetentionMs, type AuditEntry } from '../../src/shared/contract/audit.ts';
import { auditReach, readAudit } from '../../src/shared/state/audit/audit-stream.ts';
import type { OutgoingEvent } from '../../src/shared/state/script.ts';
import { until } from '../support/redis.ts';
import { aFinding, aLeak, foundAt as at } from './audit-events.ts';
import type { RedisWorld } from './redis-world.ts';
import { aCommit, aTerminalCommit, complete, delta } from './run-fixtures.ts';
import { claimed, seeded } from './store-world.ts';

/** The entries of a tenant, oldest first. */
export async function audited({ redis, keys }: RedisWorld, tenant: string): Promise<(AuditEntry | undefined)[]> {
  const found = await readAudit({ redis, keys }, tenant, { from: '-', to: '+' }, 1_000);
  return found.map(({ entry }) => entry).toReversed();
}

/** Waits for so many entries of a tenant. In a Cluster they come a little later than their events. */
async function auditedBy(world: RedisWorld, tenant: string, count: number): Promise<(AuditEntry | undefined)[]> {
  return await until(`${count} audit entries of ${tenant}`, async () => {
    const entries = await audited(world, tenant);
    return entries.length >= count ? entries : undefined;
  });
}

/** What every form of Redis does with events that are audited. */
export function auditContract(name: string, makeWorld: () => Promise<RedisWorld>): void {
  describe(`the audit stream in ${name}`, () => {
    test('an audited event is in the stream of its tenant with its number, whether flushed or committed', async () => {
      const world = await makeWorld();
      const runId = await seeded(world, { tenant: 'shop' });
      const own = { runId, owner: (await claimed(world, runId)).owner, tenant: 'shop' };
      await world.runs.flush(own, 3, [delta(runId, 'a'), aFinding(runId, 'c1'), complete(runId, 'a')]);
      await world.runs.commit(own, aCommit(6, { events: [aFinding(runId, 'c2'), aLeak(runId)] }));
      const entries = await auditedBy(world, 'shop', 3);
      const head = { v: 1, at, tenant: 'shop', runId, agent: 'support' };
      const call = {
        kind: 'flow',
        decision: 'flagged',
        toolName: 'send_mail',
        rule: 'untrusted-value',
        mode: 'shadow',
      };
      const source = { name: 'web_fetch', trust: 'external' };
      const findings = [{ rule: 'untrusted-value', argument: 'to', source }];
      expect(entries).toEqual([
        { ...head, ...call, sequenceNumber: 5, toolCallId: 'c1', findings },
        { ...head, ...call, sequenceNumber: 7, toolCallId: 'c2', findings },
        {
          ...head,
          kind: 'leak',
          sequenceNumber: 8,
          vector: 'child-answer',
          severity: 'high',
          decision: 'blocked',
          contentSha256: 'ab'.repeat(32),
        },
      ]);
      const log = await world.events(runId);
      expect(log.slice(3).map(({ type }) => type)).toEqual([
        'text.delta',
        'dataflow.flagged',
        'text.complete',
        'dataflow.flagged',
        'agent.lateral-leak.detected',
      ]);
      expect(log[4]).toEqual({ v: 1, sequenceNumber: 5, ...aFinding(runId, 'c1') });
      expect(await audited(world, 'default')).toEqual([]);
    });

    test('a write whose reply was lost, and one that is fenced, add no entry', async () => {
      const world = await makeWorld();
      const runId = await seeded(world);
      const { owner } = await claimed(world, runId);
      const own = { runId, owner, tenant: 'default' };
      const flush = [aFinding(runId, 'c1')];
      for (let twice = 0; twice < 2; twice++)
        expect(await world.runs.flush(own, 3, flush)).toEqual({ kind: 'ok', seq: 4 });
      const commit = aCommit(4, { events: [aFinding(runId, 'c2')] });
      for (let twice = 0; twice < 2; twice++)
        expect(await world.runs.commit(own, commit)).toMatchObject({ kind: 'ok', seq: 5 });
      const other = { ...own, owner: 'another' };
      expect(await world.runs.commit(other, aCommit(5, { events: [aFinding(runId, 'c3')] }))).toEqual({
        kind: 'fenced',
      });
      expect(await world.runs.flush(own, 3, [aFinding(runId, 'c4')])).toEqual({ kind: 'fenced' });
      await world.runs.commit(own, aTerminalCommit(runId, 5, { events: [aFinding(runId, 'last')] }));
      const entries = await auditedBy(world, 'default', 3);
      expect(entries.map((entry) => entry?.kind === 'flow' && entry.toolCallId)).toEqual(['c1', 'c2', 'last']);
    });

    test('flushes of several tenants within one tick reach the stream of each, and none of another', async () => {
      const world = await makeWorld();
      const tenants = ['red', 'green', 'blue'];
      const runs = await Promise.all(
        tenants.map(async (tenant) => {
          const runId = await seeded(world, { tenant });
          return { runId, tenant, owner: (await claimed(world, runId)).owner };
        }),
      );
      const plain = await seeded(world);
      const { owner } = await claimed(world, plain);
      await Promise.all([
        ...runs.map((own) => world.runs.flush(own, 3, [aFinding(own.runId, own.tenant)])),
        world.runs.flush({ runId: plain, owner }, 3, [delta(plain, 'a')]),
      ]);
      for (const { tenant, runId } of runs)
        expect(await auditedBy(world, tenant, 1)).toMatchObject([{ tenant, runId, toolCallId: tenant }]);
      expect(await audited(world, 'default')).toEqual([]);
    });

    test('an entry stays when its run is gone, and the stream goes 30 days after the last one', async () => {
      const world = await makeWorld();
      const { redis, keys } = world;
      const runId = await seeded(world);
      const own = { runId, owner: (await claimed(world, runId)).owner, tenant: 'default' };
      await world.runs.flush(own, 3, [aFinding(runId, 'c1')]);
      await auditedBy(world, 'default', 1);
      await redis.del(keys.run(runId), keys.journal(runId), keys.events(runId));
      expect(await audited(world, 'default')).toHaveLength(1);
      const ttl = await redis.ttl(keys.audit('default'));
      expect(ttl).toBeGreaterThan(29 * 86_400);
      expect(ttl).toBeLessThanOrEqual(auditRetentionMs / 1_000);
    });

    test('entries that are too old or too many go when another comes, the oldest first', async () => {
      const world = await makeWorld();
      const { redis, keys } = world;
      const key = keys.audit('default');
      const day = 86_400_000;
      // Redis removes whole nodes of 100 entries.
      for (let i = 0; i < 300; i++) await redis.xadd(key, `${Date.now() - 31 * day + i}-0`, 'a', '{}');
      for (let i = 0; i < 300; i++) await redis.xadd(key, `${Date.now() - day + i}-0`, 'a', '{}');
      const runId = await seeded(world);
      const own = { runId, owner: (await claimed(world, runId)).owner, tenant: 'default' };
      await world.runs.flush(own, 3, [aFinding(runId, 'c1')]);
      await until('the entry', async () => (await redis.xrevrange(key, '+', '-', 'COUNT', 1))[0]?.[1][1] !== '{}');
      expect(await redis.xlen(key)).toBe(301);
      const { oldestMs, isFull } = await auditReach(world, 'default');
      expect(Date.now() - (oldestMs ?? 0)).toBeLessThan(2 * day);
      expect(isFull).toBe(false);
    });

    test('a write of an audited event that names no tenant is refused as a whole', async () => {
      const world = await makeWorld();
      const runId = await seeded(world);
      const { owner } = await claimed(world, runId);
      const events = [aFinding(runId, 'c1')];
      await expect(world.runs.flush({ runId, owner }, 3, events)).rejects.toMatchObject({ code: 'internal' });
      await expect(world.runs.commit({ runId, owner }, aCommit(3, { events }))).rejects.toMatchObject({
        code: 'internal',
      });
      expect(await world.events(runId)).toHaveLength(3);
    });

    test('a denial of a rule is an entry without the words of the rule, and what a rule allows is none', async () => {
      const world = await makeWorld();
      const runId = await seeded(world, { tenant: 'shop' });
      const own = { runId, owner: (await claimed(world, runId)).owner, tenant: 'shop' };
      const decided = (action: string): OutgoingEvent => ({
        runId,
        timestamp: at,
        agentId: 'support',
        type: 'policy.decision',
        subject: 'tool_call',
        action,
        ruleId: 'no-mail',
        reason: 'canary',
        toolCallId: action,
        toolName: 'send_mail',
      });
      await world.runs.flush(own, 3, [decided('allow'), decided('deny'), decided('request_approval')]);
      const [entry, ...others] = await auditedBy(world, 'shop', 1);
      expect(others).toEqual([]);
      const head = { v: 1, at, tenant: 'shop', runId, agent: 'support', sequenceNumber: 5, kind: 'denial' };
      const call = { subject: 'tool_call', ruleId: 'no-mail', toolCallId: 'deny', toolName: 'send_mail' };
      expect(entry).toEqual({ ...head, ...call });
    });

    test('the stream has no value that a finding was shown with', async () => {
      const world = await makeWorld();
      const runId = await seeded(world);
      const own = { runId, owner: (await claimed(world, runId)).owner, tenant: 'default' };
      const finding = { rule: 'untrusted-value', argument: 'to', value: 'canary-7f3a' } as const;
      await world.runs.flush(own, 3, [aFinding(runId, 'c1', { findings: [finding] })]);
      await auditedBy(world, 'default', 1);
      const raw = await world.redis.xrange(world.keys.audit('default'), '-', '+');
      expect(JSON.stringify(raw)).not.toContain('canary');
    });
  });
}
