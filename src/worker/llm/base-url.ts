import { lookup as systemLookup, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import type { Sensitivity } from '../../shared/message.ts';

/** Where model providers may be. */
export interface EgressRule {
  /** `host` or `host:port`, lower-case: allowed whatever they are. */
  readonly allowedHosts: readonly string[];
  /** Private addresses and cleartext are for development, unless the host is allowed by name. */
  readonly production: boolean;
}

/** What an address is, seen from here. `local` holds link-local and the metadata services of clouds. */
type Network = 'loopback' | 'local' | 'private' | 'public';

const loopback = blockList(['127.0.0.0/8', '0.0.0.0/32', '::1/128', '::/128']);
const local = blockList([
  '169.254.0.0/16',
  'fe80::/10',
  // Metadata services outside the link-local range: AWS over IPv6, Alibaba, Azure, Oracle.
  'fd00:ec2::254/128',
  '100.100.100.200/32',
  '168.63.129.16/32',
  '192.0.0.192/32',
  // Link-local addresses of IPv4 wrapped by NAT64 and 6to4.
  '64:ff9b::a9fe:0/112',
  '2002:a9fe::/32',
  // Multicast and what is reserved are no hosts.
  '224.0.0.0/3',
  'ff00::/8',
]);
const privateNets = blockList([
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '192.0.0.0/24',
  '198.18.0.0/15',
  'fc00::/7',
  'fec0::/10',
  '64:ff9b:1::/48',
]);

/** Names that a public resolver does not know: single labels, and the endings of inner networks. */
const innerName = /^[^.]+$|\.(internal|local|lan|localdomain|svc|home\.arpa|intranet|corp|private)$/;

/**
 * Why a provider must not be at this URL, as far as the URL alone tells; undefined when it may. Names that resolve to an
 * address which is refused are found when the connection is made, see {@link guardedLookup}.
 */
export function baseUrlProblem(baseUrl: string, rule: EgressRule): string | undefined {
  const url = new URL(baseUrl);
  const host = hostOf(url.hostname);
  if (isAllowed(host, portOf(url), rule)) return undefined;
  const network = networkOf(host);
  if (network === 'loopback') return undefined;
  if (network === 'local') return `${host} is a link-local or metadata address: ${howToAllow(host)}`;
  if (!rule.production) return undefined;
  if (network === 'private') return `${host} is a private address, which production refuses: ${howToAllow(host)}`;
  if (url.protocol === 'http:') return `${host} is without TLS, which production refuses: ${howToAllow(host)}`;
  return undefined;
}

/** Is this host, on this port, one that the operator allows by name? */
export function isAllowed(host: string, port: string, { allowedHosts }: EgressRule): boolean {
  const name = hostOf(host);
  return allowedHosts.some((entry) => {
    const allowed = hostOf(entry);
    return allowed === name || allowed === `${name}:${port}` || entry === `[${name}]:${port}`;
  });
}

/**
 * A DNS lookup that fails, before anything is connected, when one of the addresses is refused. Its error has the code
 * `EGRESS_REFUSED`.
 */
export function guardedLookup(rule: EgressRule, lookup = systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '');
      const refused = addresses.map(({ address }) => refusalOf(hostname, address, rule)).find((one) => one);
      const first = addresses[0];
      if (refused || !first) return callback(Object.assign(new Error(refused ?? 'no address'), refusedCode), '');
      if (options.all) (callback as unknown as AllCallback)(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

export const refusedCode = { code: 'EGRESS_REFUSED' } as const;
type AllCallback = (error: null, addresses: readonly LookupAddress[]) => void;

function refusalOf(name: string, address: string, rule: EgressRule): string | undefined {
  const network = networkOf(address);
  if (network === 'local') return `${name} resolves to a link-local or metadata address: ${howToAllow(name)}`;
  if (network !== 'private' || !rule.production) return undefined;
  return `${name} resolves to a private address, which production refuses: ${howToAllow(name)}`;
}

/**
 * What a provider at this URL may see unless it declares otherwise: everything on this machine, internal data within the
 * own network, public data behind TLS, and nothing without.
 */
export function sensitivityAt(baseUrl: string): readonly Sensitivity[] {
  const url = new URL(baseUrl);
  const host = hostOf(url.hostname);
  const network = networkOf(host);
  if (network === 'loopback') return ['public', 'internal', 'secret'];
  if (network === 'private' || (isIP(host) === 0 && innerName.test(host))) return ['public', 'internal'];
  return url.protocol === 'https:' ? ['public'] : [];
}

/** A name counts as public: what it resolves to is not known here. */
function networkOf(host: string): Network {
  const family = isIP(host);
  if (family === 0) return host === 'localhost' || host.endsWith('.localhost') ? 'loopback' : 'public';
  const type = family === 6 ? 'ipv6' : 'ipv4';
  if (loopback.check(host, type)) return 'loopback';
  if (local.check(host, type)) return 'local';
  return privateNets.check(host, type) ? 'private' : 'public';
}

/** Without the brackets of IPv6 and the dot that ends a full name. */
function hostOf(hostname: string): string {
  return hostname
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
}

function portOf(url: URL): string {
  return url.port || (url.protocol === 'https:' ? '443' : '80');
}

function howToAllow(host: string): string {
  return `add ${host} to LLM_ALLOWED_HOSTS if that is meant`;
}

function blockList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    list.addSubnet(address, Number(bits), isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}
