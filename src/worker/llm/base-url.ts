import { isIP } from 'node:net';
import type { AddressGuard } from '../../shared/egress/guarded-agent.ts';
import type { Sensitivity } from '../../shared/contract/message.ts';
import { hostOf, isInnerName, isNamed, networkOf, portOf } from '../../shared/egress/networks.ts';

/** Where model providers may be. */
export interface EgressRule {
  /** `host` or `host:port`, lower-case: allowed whatever they are. */
  readonly allowedHosts: readonly string[];
  /** Private addresses and cleartext are for development, unless the host is allowed by name. */
  readonly production: boolean;
}

/**
 * Why a provider must not be at this URL, as far as the URL alone shows; undefined when it may. Names that resolve to an
 * address which is refused are found when the connection is made, see {@link providerGuard}.
 */
export function baseUrlProblem(baseUrl: string, rule: EgressRule): string | undefined {
  const url = new URL(baseUrl);
  const host = hostOf(url.hostname);
  if (isNamed(host, portOf(url), rule.allowedHosts)) return undefined;
  const network = networkOf(host);
  if (network === 'loopback') return undefined;
  if (network === 'local') return `${host} is a link-local or metadata address: ${howToAllow(host)}`;
  if (!rule.production) return undefined;
  if (network === 'private') return `${host} is a private address, which production refuses: ${howToAllow(host)}`;
  if (url.protocol === 'http:') return `${host} is without TLS, which production refuses: ${howToAllow(host)}`;
  return undefined;
}

/** What may be connected to. Its refusals have the code `EGRESS_REFUSED`. */
export function providerGuard(rule: EgressRule): AddressGuard {
  return {
    allows: (host, port) => isNamed(host, port, rule.allowedHosts),
    refusal: (host, address) => {
      const refused = refusalOf(host, address, rule);
      return refused === undefined ? undefined : Object.assign(new Error(refused), refusedCode);
    },
  };
}

export const refusedCode = { code: 'EGRESS_REFUSED' } as const;

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
  if (network === 'private' || (isIP(host) === 0 && isInnerName(host))) return ['public', 'internal'];
  return url.protocol === 'https:' ? ['public'] : [];
}

function howToAllow(host: string): string {
  return `add ${host} to LLM_ALLOWED_HOSTS if that is meant`;
}
