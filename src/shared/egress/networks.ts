import { BlockList, isIP } from 'node:net';

/**
 * What an address is, seen from here. `local` holds what no host of an own network is: link-local addresses, the metadata
 * services of clouds, multicast. `reserved` addresses are in no network, or lead into one in a roundabout way.
 */
export type Network = 'loopback' | 'local' | 'private' | 'reserved' | 'public';

/** Addresses that are not public, and why. */
interface AddressFamily {
  readonly network: Exclude<Network, 'public'>;
  readonly name: string;
  readonly ranges: readonly string[];
}

/**
 * Every address that is not public. The first family that holds an address counts. Not in here, because addresses do not
 * show it: NAT64 with a prefix of the operator's own, and ISATAP.
 */
export const families: readonly AddressFamily[] = [
  family('loopback', 'this machine', '127.0.0.0/8', '0.0.0.0/32', '::1/128', '::/128'),
  family('local', 'link-local', '169.254.0.0/16', 'fe80::/10', '64:ff9b::a9fe:0/112', '2002:a9fe::/32'),
  // Outside the link-local range: AWS over IPv6, Alibaba, Azure, Oracle.
  family('local', 'cloud metadata', 'fd00:ec2::254/128', '100.100.100.200/32', '168.63.129.16/32', '192.0.0.192/32'),
  family('local', 'multicast', '224.0.0.0/4', 'ff00::/8'),
  family('local', 'reserved and broadcast', '240.0.0.0/4'),
  family('private', 'private', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'),
  family('private', 'carrier-grade NAT', '100.64.0.0/10'),
  family('private', 'site-local', 'fec0::/10'),
  family('private', 'protocol assignments', '192.0.0.0/24'),
  family('private', 'benchmarking', '198.18.0.0/15'),
  family('private', 'NAT64 for local use', '64:ff9b:1::/48'),
  family('reserved', 'this network', '0.0.0.0/8'),
  family(
    'reserved',
    'documentation',
    '192.0.2.0/24',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '2001:db8::/32',
    '3fff::/20',
  ),
  family('reserved', '6to4 and its relays', '2002::/16', '192.88.99.0/24'),
  family('reserved', 'IPv4-mapped', '::ffff:0:0/96'),
  family('reserved', 'IPv4-compatible', '::/96'),
  family('reserved', 'IPv4-translated', '::ffff:0:0:0/96'),
  family('reserved', 'NAT64', '64:ff9b::/96'),
  // 2001::/32 is Teredo, 2001:10::/28 and 2001:20::/28 are ORCHID, 2001:2::/48 is for benchmarks.
  family('reserved', 'Teredo, ORCHID and other IPv6 protocol assignments', '2001::/23'),
  family('reserved', 'discard-only', '100::/64', '100:0:0:1::/64'),
  family('reserved', 'segment routing', '5f00::/16'),
  family('reserved', 'IPv6 outside 2000::/3, which is all that is global', '::/3', '4000::/2', '8000::/1'),
];

function family(network: AddressFamily['network'], name: string, ...ranges: string[]): AddressFamily {
  return { network, name, ranges };
}

/** An IPv4 address also lies in the IPv6 ranges of mapped addresses, for `BlockList`: so it is asked without them. */
const lists = families.map((one) => ({
  family: one,
  ipv4: blockList(one.ranges.filter((range) => !range.includes(':'))),
  ipv6: blockList(one.ranges),
}));

function blockList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    list.addSubnet(address, Number(bits), isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** The family of an address; undefined for public ones. IPv6 without brackets. What is no address throws. */
export function familyOf(address: string): AddressFamily | undefined {
  // The zone says on which link the address is; it is not a part of it.
  const [bare = ''] = address.split('%');
  const version = isIP(bare);
  if (version === 0) throw new TypeError('this is no IP address');
  const type = version === 6 ? 'ipv6' : 'ipv4';
  return lists.find((list) => list[type].check(bare, type))?.family;
}

/** What a host of a URL is as far as it says so itself. Names are public: what they resolve to is not known here. */
export function networkOf(host: string): Network {
  if (isIP(host) !== 0) return familyOf(host)?.network ?? 'public';
  return /^(.*\.)?localhost$/.test(host) ? 'loopback' : 'public';
}

/** A name that a public resolver does not know: a single label, or the ending of an inner network. Without a last dot. */
export function isInnerName(name: string): boolean {
  return /^[^.]+$|\.(internal|local|localhost|lan|localdomain|svc|home\.arpa|intranet|corp|private)$/.test(name);
}

/** A host that is not public, as far as it says so itself: its address, or a name of an inner network. */
export function isInnerHost(hostname: string): boolean {
  const host = hostOf(hostname);
  return isIP(host) === 0 ? isInnerName(host) : familyOf(host) !== undefined;
}

/** Lower-case, without the brackets of IPv6 and the dot that ends a full name. */
export function hostOf(hostname: string): string {
  return hostname
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
}

/** The port of an http or https URL, also where it is not written. */
export function portOf(url: Pick<URL, 'port' | 'protocol'>): string {
  return url.port || (url.protocol === 'https:' ? '443' : '80');
}

/** Is this host, on this port, among these entries (`host` or `host:port`, lower-case)? */
export function isNamed(host: string, port: string, entries: readonly string[]): boolean {
  const name = hostOf(host);
  return entries.some((entry) => {
    const named = hostOf(entry);
    return named === name || named === `${name}:${port}` || entry === `[${name}]:${port}`;
  });
}
