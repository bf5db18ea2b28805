/**
 * Why a request was not made, or its answer not taken. The first six are refusals of where it would have gone:
 * - invalid_url: no URL
 * - insecure_url: another scheme than https
 * - userinfo: a user name or password in the URL
 * - domain_not_allowed: not on the list that was given
 * - private_address: a host that is not public, or whose name resolves to an address that is not
 * - port_not_allowed: not on the list that was given
 * - too_many_redirects: more than allowed, or any where none are followed
 * - too_large: the head or the body of the answer
 * - timeout: no connection, or no whole answer, in time
 * - unreachable: no connection, or one that broke off
 */
export type EgressReason =
  | 'invalid_url'
  | 'insecure_url'
  | 'userinfo'
  | 'domain_not_allowed'
  | 'private_address'
  | 'port_not_allowed'
  | 'too_many_redirects'
  | 'too_large'
  | 'timeout'
  | 'unreachable';

/** Its message names hosts, and neither paths nor addresses that names resolved to. */
export class EgressError extends Error {
  readonly reason: EgressReason;
  /** Whether the request, or its first hop, may have reached a server that acted on it. */
  readonly mayHaveArrived: boolean;

  constructor(
    reason: EgressReason,
    message: string,
    { mayHaveArrived = false, ...options }: ErrorOptions & { readonly mayHaveArrived?: boolean } = {},
  ) {
    super(message, options);
    this.name = 'EgressError';
    this.reason = reason;
    this.mayHaveArrived = mayHaveArrived;
  }
}

/** Failures of undici that have a reason of their own. */
const reasonByCode: ReadonlyMap<unknown, EgressReason> = new Map([
  ['UND_ERR_CONNECT_TIMEOUT', 'timeout'],
  ['ETIMEDOUT', 'timeout'],
  ['UND_ERR_HEADERS_OVERFLOW', 'too_large'],
  ['HPE_HEADER_OVERFLOW', 'too_large'],
]);

/** Failures of the lookup, the connection and TLS. */
const beforeSending =
  /^(ENOTFOUND|EAI_.*|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_.*|ERR_SSL_.*|CERT_.*|.*_CERT.*|UNABLE_TO_.*)$/;

/** Whatever a request to this host threw. A refusal of the connection comes out as it was made. */
export function egressErrorOf(thrown: unknown, host: string): EgressError {
  let code: string | undefined;
  let error = thrown;
  for (let depth = 0; error instanceof Error && depth < 6; depth++) {
    if (error instanceof EgressError) return error;
    if ('code' in error && typeof error.code === 'string' && /^[A-Z0-9_]{1,64}$/.test(error.code)) code = error.code;
    error = error.cause;
  }
  const reason = reasonByCode.get(code) ?? 'unreachable';
  return new EgressError(reason, `${messages[reason]}: ${host}${code ? ` (${code})` : ''}`, {
    cause: thrown,
    mayHaveArrived: !beforeSending.test(code ?? ''),
  });
}

const messages: Record<string, string> = {
  timeout: 'there was no connection in time',
  too_large: 'the head of the answer was too large',
  unreachable: 'there was no whole answer',
};
