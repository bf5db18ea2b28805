import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/shared/base/ids.ts';
import type { Clock } from '../../src/shared/base/clock.ts';
import { maxPins, pinsTtlMs, type OfferedTool, type ToolPins } from '../../src/shared/state/pins/tool-pins.ts';

export interface PinsWorld {
  readonly clock: Clock & { advance(ms: number): Promise<void> };
  /** The pins; asked again, as another worker has them. */
  readonly worker: () => Promise<ToolPins>;
}

export const server = { id: 'a'.repeat(32), server: 'files', target: 'npx server-files /data' };

export function offered(tool: string, description = `The tool ${tool}.`): OfferedTool {
  return {
    tool,
    digest: sha256(`${tool} ${description}`),
    parts: { description: sha256(description).slice(0, 16), inputSchema: 'same' },
    description,
    inputSchema: '{"type":"object"}',
    seenAt: '2026-01-01T00:00:00.000Z',
  };
}

const { tool: _, ...readBefore } = offered('read');
const accepted = { kind: 'accepted' };

/** What pins promise. */
export function toolPinsContract(name: string, makeWorld: () => Promise<PinsWorld>): void {
  describe(`${name} as pins of tools`, () => {
    test('the first use accepts every tool, and no later one does', async () => {
      const { worker } = await makeWorld();
      const tools = [offered('read'), offered('write')];
      expect(await (await worker()).check('acme', server, tools)).toEqual([accepted, accepted]);
      expect(await (await worker()).check('acme', server, tools)).toEqual([accepted, accepted]);
      const later = [offered('read', 'Reads, and tells evil.example.'), offered('write'), offered('delete')];
      const verdicts = [{ kind: 'changed', before: readBefore }, accepted, { kind: 'changed', before: undefined }];
      expect(await (await worker()).check('acme', server, later)).toEqual(verdicts);
      expect(await (await worker()).check('acme', server, later)).toEqual(verdicts);
    });

    test('a server that had no tools at its first use gets none unseen', async () => {
      const pins = await (await makeWorld()).worker();
      expect(await pins.check('acme', server, [])).toEqual([]);
      expect(await pins.check('acme', server, [offered('read')])).toEqual([{ kind: 'changed', before: undefined }]);
    });

    test('of many workers at the first use one accepts, and the others compare with that', async () => {
      const { worker } = await makeWorld();
      const workers = await Promise.all(Array.from({ length: 8 }, () => worker()));
      const said = workers.map((pins, index) => ({ pins, tool: offered('read', `Version ${index % 2}.`) }));
      const verdicts = await Promise.all(said.map(async ({ pins, tool }) => await pins.check('acme', server, [tool])));
      const kinds = verdicts.map(([verdict]) => verdict?.kind);
      expect(new Set(kinds.filter((_kind, index) => index % 2 === 0)).size).toBe(1);
      expect(kinds[0]).not.toBe(kinds[1]);
      expect(new Set(kinds)).toEqual(new Set(['accepted', 'changed']));
    });

    test('what has changed is listed beside what was accepted, until it is accepted or taken back', async () => {
      const { worker } = await makeWorld();
      const pins = await worker();
      await pins.check('acme', server, [offered('read'), offered('write')]);
      await pins.check('acme', { ...server, server: 'other-name' }, [offered('read', 'New.'), offered('more')]);
      const listed = (await (await worker()).list('acme'))[0];
      expect(listed).toMatchObject({ id: server.id, server: 'other-name', target: server.target });
      expect(listed?.tools).toEqual([
        { tool: 'more', accepted: undefined, changed: plain(offered('more')) },
        { tool: 'read', accepted: readBefore, changed: plain(offered('read', 'New.')) },
        { tool: 'write', accepted: plain(offered('write')), changed: undefined },
      ]);
      await pins.check('acme', server, [offered('read')]);
      expect((await pins.list('acme'))[0]?.tools[1]).toEqual({ tool: 'read', accepted: readBefore });
      expect((await pins.list('acme'))[0]?.tools[0]).toMatchObject({
        tool: 'more',
        changed: { description: 'The tool more.' },
      });
    });

    test('a change is accepted by who says so, once, and only the one that was meant', async () => {
      const { worker } = await makeWorld();
      const pins = await worker();
      const [first, second] = [offered('read', 'Second.'), offered('read', 'Third.')];
      await pins.check('acme', server, [offered('read')]);
      await pins.check('acme', server, [first]);
      await pins.check('acme', server, [second]);
      expect(await pins.accept('acme', server.id, [{ tool: 'read', digest: first.digest }], 'ada')).toEqual([]);
      expect(await pins.accept('acme', server.id, [{ tool: 'none' }], 'ada')).toEqual([]);
      expect(await pins.accept('acme', server.id, [{ tool: 'read', digest: second.digest }], 'ada')).toEqual(['read']);
      expect(await pins.accept('acme', server.id, [{ tool: 'read', digest: second.digest }], 'bob')).toEqual(['read']);
      expect(await (await worker()).check('acme', server, [second])).toEqual([accepted]);
      expect((await pins.list('acme'))[0]?.tools).toEqual([
        { tool: 'read', accepted: { ...plain(second), by: 'ada', acceptedAt: expect.any(String) as string } },
      ]);
      await pins.check('acme', server, [first]);
      expect(await pins.accept('acme', server.id, [{ tool: 'read' }], 'bob')).toEqual(['read']);
      expect(await pins.check('acme', server, [first])).toEqual([accepted]);
      expect(await pins.accept('acme', 'b'.repeat(32), [{ tool: 'read' }], 'ada')).toBeUndefined();
    });

    test('a worker accepts what it has seen itself, also where no room was left to keep it', async () => {
      const pins = await (await makeWorld()).worker();
      const many = Array.from({ length: maxPins }, (_none, index) => offered(`t${index}`));
      await pins.check('acme', server, many);
      const late = offered('late');
      await pins.check('acme', server, [late]);
      expect((await pins.list('acme'))[0]?.tools.some(({ tool }) => tool === 'late')).toBe(false);
      expect(await pins.accept('acme', server.id, [{ tool: 'late' }], 'ada')).toEqual([]);
      const asked = { tool: 'late', digest: late.digest, said: plain(late) };
      expect(await pins.accept('acme', server.id, [asked], 'ada')).toEqual(['late']);
      expect(await pins.check('acme', server, [late])).toEqual([accepted]);
    });

    test('tenants and servers have pins of their own, the last used first', async () => {
      const { clock, worker } = await makeWorld();
      const pins = await worker();
      await pins.check('acme', server, [offered('read')]);
      expect(await pins.check('other', server, [offered('read', 'New.')])).toEqual([accepted]);
      await clock.advance(1_000);
      expect(await pins.check('acme', { ...server, id: 'b'.repeat(32) }, [offered('read', 'New.')])).toEqual([
        accepted,
      ]);
      expect((await pins.list('acme')).map(({ id }) => id)).toEqual(['b'.repeat(32), server.id]);
      expect((await pins.list('other')).map(({ id }) => id)).toEqual([server.id]);
      expect(await pins.list('nobody')).toEqual([]);
    });
  });
}

export function plain({ tool: _tool, ...described }: OfferedTool) {
  return described;
}

export { pinsTtlMs };
