import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createEgress } from '../../../src/shared/egress/egress.ts';
import { families, familyOf, isInnerHost, isNamed } from '../../../src/shared/egress/networks.ts';

const egress = createEgress({ allowedHosts: [], allowHttp: true });
const octets = fc.tuple(...Array.from({ length: 4 }, () => fc.integer({ min: 0, max: 255 })));

/** Written down a second time, by hand, as what the first bytes of an address say. */
function isPublicIpv4([a = 0, b = 0, c = 0, d = 0]: readonly number[]): boolean {
  if (a === 0 || a === 10 || a === 127 || a >= 224) return false;
  if (a === 100) return b < 64 || b > 127;
  if (a === 169) return b !== 254;
  if (a === 172) return b < 16 || b > 31;
  if (a === 192) return b !== 168 && !(b === 0 && (c === 0 || c === 2)) && !(b === 88 && c === 99);
  if (a === 198) return b !== 18 && b !== 19 && !(b === 51 && c === 100);
  if (a === 203) return !(b === 0 && c === 113);
  return `${a}.${b}.${c}.${d}` !== '168.63.129.16';
}

/** Every way to write an IPv4 address that a URL takes. */
function spellings([a = 0, b = 0, c = 0, d = 0]: readonly number[]): string[] {
  const [last3, last2] = [b * 65_536 + c * 256 + d, c * 256 + d];
  const whole = a * 2 ** 24 + last3;
  const hex = (value: number) => `0x${value.toString(16)}`;
  const octal = (value: number) => `0${value.toString(8)}`;
  return [
    `${a}.${b}.${c}.${d}`,
    `${a}.${b}.${c}.${d}.`,
    `${whole}`,
    hex(whole),
    hex(whole).toUpperCase().replace('X', 'x'),
    octal(whole),
    `${a}.${last3}`,
    `${a}.${b}.${last2}`,
    [a, b, c, d].map(hex).join('.'),
    [a, b, c, d].map(octal).join('.'),
    `${hex(a)}.${octal(b)}.${last2}`,
    `${a}%2E${b}.${c}.${d}`,
    `${a}。${b}．${c}.${d}`,
  ];
}

/** Every IPv6 form that leads to, or stands for, this IPv4 address. */
function inIpv6([a = 0, b = 0, c = 0, d = 0]: readonly number[]): string[] {
  const dotted = `${a}.${b}.${c}.${d}`;
  const group = (high: number, low: number) => (high * 256 + low).toString(16);
  const [high, low] = [group(a, b), group(c, d)];
  return [
    `[::ffff:${dotted}]`,
    `[::ffff:${high}:${low}]`,
    `[0:0:0:0:0:FFFF:${high}:${low}]`,
    `[::${dotted}]`,
    `[::${high}:${low}]`,
    `[::ffff:0:${high}:${low}]`,
    `[64:ff9b::${dotted}]`,
    `[64:ff9b:0:0:0:0:${high}:${low}]`,
    `[64:ff9b:1:7:8::${high}:${low}]`,
    `[2002:${high}:${low}::1]`,
    `[2001:0:${high}:${low}::1]`,
    `[2001:0:1234:5678:0:ffff:${high}:${low}]`,
  ];
}

describe('an address', () => {
  test('of IPv4 is refused in every spelling exactly when it is not public', () => {
    fc.assert(
      fc.property(octets, (address) => {
        const found = spellings(address).map((host) => egress.check(`http://${host}/`)?.reason);
        const expected = isPublicIpv4(address) ? undefined : 'private_address';
        expect([address, new Set(found)]).toEqual([address, new Set([expected])]);
      }),
      { numRuns: 300 },
    );
  });

  test.each(families.filter(({ ranges }) => ranges.some((range) => !range.includes(':'))))(
    'of the family $name is refused in every spelling',
    ({ ranges, network }) => {
      const inRange = ranges
        .filter((range) => !range.includes(':'))
        .map((range) => {
          const [base = '', bits] = range.split('/');
          const first = base.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
          return fc.integer({ min: 0, max: 2 ** (32 - Number(bits)) - 1 }).map((offset) => {
            const value = first + offset;
            return [value / 2 ** 24, value / 65_536, value / 256, value].map((part) => Math.floor(part) % 256);
          });
        });
      fc.assert(
        fc.property(fc.oneof(...inRange), (address) => {
          for (const host of spellings(address)) {
            expect([host, egress.check(`http://${host}/`)?.reason]).toEqual([host, 'private_address']);
          }
          expect(familyOf(address.join('.'))?.network).toBeOneOf([network, 'loopback', 'local']);
        }),
        { numRuns: 50 },
      );
    },
  );

  test('of IPv6 that holds an IPv4 address is refused, whatever that one is', () => {
    fc.assert(
      fc.property(octets, (address) => {
        const found = inIpv6(address).map((host) => [host, egress.check(`http://${host}/`)?.reason]);
        expect(found).toEqual(inIpv6(address).map((host) => [host, 'private_address']));
      }),
      { numRuns: 200 },
    );
  });

  test('of IPv6 is public only inside 2000::/3, and there not everywhere', () => {
    const groups = fc.tuple(...Array.from({ length: 8 }, () => fc.integer({ min: 0, max: 0xffff })));
    const refusedWithin = (g: readonly number[]) =>
      (g[0] === 0x2001 && ((g[1] ?? 0) < 0x200 || g[1] === 0x0db8)) ||
      g[0] === 0x2002 ||
      (g[0] === 0x3fff && (g[1] ?? 0) < 0x1000);
    const anywhere = fc.oneof(
      groups,
      groups.map((g) => [0x2001, ...g.slice(1)]),
      groups.map((g) => [0x3fff, ...g.slice(1)]),
    );
    fc.assert(
      fc.property(anywhere, (address) => {
        const text = address.map((group) => group.toString(16)).join(':');
        const isPublic = ((address[0] ?? 0) & 0xe000) === 0x2000 && !refusedWithin(address);
        expect([text, egress.check(`http://[${text}]/`) === undefined]).toEqual([text, isPublic]);
      }),
      { numRuns: 1_000 },
    );
  });

  test.each([
    ['8.8.8.8', undefined],
    ['::1', 'this machine'],
    ['fe80::1%eth0', 'link-local'],
    ['::ffff:10.0.0.1', 'private'],
    ['::ffff:8.8.8.8', 'IPv4-mapped'],
    ['64:ff9b::a9fe:a9fe', 'link-local'],
    ['2001::1', 'Teredo, ORCHID and other IPv6 protocol assignments'],
    ['2606:4700::1', undefined],
    ['168.63.129.16', 'cloud metadata'],
  ])('%s belongs to the family %s', (address, name) => {
    expect(familyOf(address)?.name).toBe(name);
  });

  test('that is none is an error and not public', () => {
    expect(() => familyOf('example.com')).toThrow(TypeError);
  });
});

test.each([
  'localhost',
  'a.localhost',
  'db',
  'metadata.google.internal',
  'api.svc.cluster.local',
  'x.home.arpa',
  '[::1]',
])('%s is no public host', (host) => {
  expect(isInnerHost(host)).toBe(true);
});

test.each<[string, string, readonly string[], boolean]>([
  ['a.example', '443', ['a.example'], true],
  ['A.example.', '443', ['a.example:443'], true],
  ['a.example', '80', ['a.example:443'], false],
  ['b.a.example', '443', ['a.example'], false],
  ['::1', '8080', ['[::1]:8080'], true],
  ['::1', '8080', ['::1'], true],
  ['::1', '8081', ['[::1]:8080'], false],
])('%s at port %s is named by %j: %s', (host, port, entries, expected) => {
  expect(isNamed(host, port, entries)).toBe(expected);
});

test('the page about egress lists exactly the families with their ranges', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/egress-and-files.md'), 'utf8');
  const section = page.split('## Which addresses are refused')[1]?.split('\n## ')[0] ?? '';
  const names = [...section.matchAll(/^\| ([^|]+?) +\|/gm)].map(([, name]) => name);
  expect(names.slice(2)).toEqual(families.map(({ name }) => name));
  for (const range of families.flatMap(({ ranges }) => ranges)) expect(page).toContain(`\`${range}\``);
});
