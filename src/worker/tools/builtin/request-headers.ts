import { connectionHeaders } from '../../../shared/egress/egress-fetch.ts';

const token = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$/;
// What HTTP allows in a value: no line ends, and no other control characters but the tab.
const fieldValue = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;
/** These would change the method, or say who asks. */
const misleading = /^(proxy-.*|sec-.*|x-http-method(-override)?|x-method-override|x-forwarded-.*|forwarded|x-real-ip)$/;
const credential =
  /(^|[-_.])(auth|authorization|authentication|cookie2?|credentials?|key|apikey|passw(or)?d|secret|session|signature|token)([-_.]|$)/;

/** Why a header cannot be sent, whoever sets it; undefined when it can. */
export function headerProblem(name: string, value: string): string | undefined {
  if (!token.test(name)) return 'a name is not one that a header can have';
  if (!fieldValue.test(value)) return `the value of ${name} has characters that a header cannot have`;
  const lower = name.toLowerCase();
  if (connectionHeaders.includes(lower) || misleading.test(lower)) return `${name} cannot be set`;
  return undefined;
}

/** Does this header, by its name, hold a credential? */
export function credentialHeader(name: string): boolean {
  return credential.test(name.toLowerCase());
}
