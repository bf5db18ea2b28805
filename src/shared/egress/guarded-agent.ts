import { lookup as systemLookup, type LookupAddress, type LookupAllOptions } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector } from 'undici';
import { hostOf, portOf } from './networks.ts';

/** Resolves a name to all of its addresses, as `dns.lookup` does with `all`. */
export type Lookup = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** Where connections may go. */
export interface AddressGuard {
  /** May this host, on this port, be anywhere? */
  allows(host: string, port: string): boolean;
  /** Why there must be no connection to this address, which the host is or resolves to; undefined when there may be. */
  refusal(host: string, address: string): Error | undefined;
}

export interface GuardedAgentOptions extends Omit<Agent.Options, 'connect' | 'connectTimeout' | 'allowH2'> {
  /** Longest wait for a connection, the lookup included, in milliseconds. */
  readonly connectTimeoutMs: number;
  readonly lookup?: Lookup | undefined;
}

/**
 * Connections by HTTP/1.1 whose addresses are looked at when they are made, so that no second lookup can answer something
 * else: a host is connected to only when every address that it has may be. A refusal comes out as the error of the guard,
 * before anything is sent. Proxies that the environment names are not used.
 */
export function guardedAgent(guard: AddressGuard, options: GuardedAgentOptions): Agent {
  const { connectTimeoutMs: timeout, lookup = systemLookup, ...rest } = options;
  const anywhere = buildConnector({ timeout, allowH2: false, lookup: lookup as LookupFunction });
  const guarded = buildConnector({ timeout, allowH2: false, lookup: guardedLookup(guard, lookup) });
  return new Agent({
    ...rest,
    allowH2: false,
    connect(target, callback) {
      const host = hostOf(target.hostname);
      if (guard.allows(host, portOf({ port: target.port, protocol: target.protocol }))) {
        anywhere(target, callback);
        return;
      }
      // Addresses are never looked up.
      const refused = isIP(host) === 0 ? undefined : guard.refusal(host, host);
      if (refused) callback(refused, null);
      else guarded(target, callback);
    },
  });
}

function guardedLookup(guard: AddressGuard, lookup: Lookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '');
      const host = hostOf(hostname);
      const refused = addresses.map(({ address }) => guard.refusal(host, address)).find((one) => one);
      const first = addresses[0];
      if (refused || !first) return callback(refused ?? new Error(`${host} has no address`), '');
      if (options.all) (callback as unknown as AllCallback)(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

type AllCallback = (error: null, addresses: readonly LookupAddress[]) => void;
