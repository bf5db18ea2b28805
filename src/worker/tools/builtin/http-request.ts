import { defined } from '../../../shared/base/collections.ts';
import { z } from 'zod';
import type { Egress } from '../../../shared/egress/egress.ts';
import type { ToolErrorKind } from '../../../shared/base/errors.ts';
import { EgressError, type EgressResponse, connectionHeaders } from '../../../shared/egress/egress-fetch.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { definePackageTool } from '../define.ts';
import { ToolError } from '../tool-error.ts';
import { ToolOutput, type Tool } from '../tool.ts';
import { utf8Text } from '../file-within.ts';

const maxBytes = 1024 * 1024;
const maxTimeoutMs = 120_000;
/** Of the tool itself: the deadline of a request comes first. */
const graceMs = 5_000;
const maxHeaders = 50;
const maxHeaderChars = 1_024;

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
const readingMethods: ReadonlySet<string> = new Set(['GET', 'HEAD']);

const inputSchema = z
  .strictObject({
    url: z.string().min(1).max(8_192).describe('https, in full.'),
    method: z.enum(methods).default('GET'),
    headers: z.record(z.string(), z.string().max(8_192)).optional(),
    body: z.unknown().optional().describe('Text, or JSON. Not with GET and HEAD.'),
    timeoutMs: z.int().min(1).max(maxTimeoutMs).default(30_000).describe('Until the last byte of the answer.'),
  })
  .superRefine(({ method, headers = {}, body }, context) => {
    const complain = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if (body !== undefined && readingMethods.has(method)) complain('body', `${method} has none`);
    if (Object.keys(headers).length > maxHeaders) complain('headers', `there are more than ${maxHeaders}`);
    for (const [name, value] of Object.entries(headers)) {
      const problem = headerProblem(name, value);
      if (problem) complain('headers', problem);
    }
  });
type Args = z.output<typeof inputSchema>;

const description =
  `Sends one HTTP request to a public https address and answers status, headers, body (text; of anything
else only its kind and size) and truncated. Reads at most 1 MiB. Follows up to 3 redirects. An error status is an answer,
not a failure. Credentials cannot be passed: where a service needs some, they are set already.`.replaceAll('\n', ' ');

/** The headers of an answer that the model sees. Cookies and the like are not among them. */
const shownHeaders =
  /^(content-(type|language|length|location|disposition)|date|etag|last-modified|expires|cache-control|location|link|allow|retry-after|(x-)?request-id|(x-)?ratelimit-.*)$/;

export interface HttpRequestDeps {
  readonly egress: Egress;
  /** The only hosts that may be asked. Default: any public one. */
  readonly domains?: readonly string[] | undefined;
}

/**
 * The tool that sends HTTP requests, through the egress check. A request that writes carries the key of its call as
 * `Idempotency-Key`. Headers that look like credentials come from `toolOptions.http_request.args.headers` only, never from
 * the model, and go only to hosts that the operator has named. A refusal is a `capability_blocked` error.
 */
export function createHttpRequestTool({ egress, domains }: HttpRequestDeps): Tool {
  const tool = definePackageTool({
    name: 'http_request',
    description,
    inputSchema,
    effect: 'once',
    trust: 'web-search',
    timeoutMs: maxTimeoutMs + graceMs,
    truncationStrategy: 'spill-to-file',
    facts: ({ url }) => ({ urls: [url] }),
    // Nothing was changed by what only reads: it may be sent again.
    reconcile: async (_key, { method }) => ({ outcome: readingMethods.has(method) ? 'not_done' : 'unknown' }),
    async execute(args, { idempotencyKey, signal }) {
      const { url, method, timeoutMs } = args;
      const { headers, body } = contentOf(args);
      if (!readingMethods.has(method)) headers.set('idempotency-key', idempotencyKey);
      if (!domains && !egress.names(url)) refuseCredentials(headers);
      try {
        const response = await egress.fetch(url, {
          method,
          headers,
          signal,
          maxBytes,
          overflow: 'cut',
          deadlineMs: timeoutMs,
          ...defined({ body, domains }),
        });
        return answerOf(response, url);
      } catch (error) {
        return failureOf(error, method);
      }
    },
  });
  const check: Tool['check'] = async (args, fixed = []) => {
    const checked = await tool.check(args);
    if (!checked.ok || fixed.includes('headers')) return checked;
    const own = Object.keys((checked.value as Args).headers ?? {}).filter(credentialHeader);
    if (own.length === 0) return checked;
    return { ok: false, problems: own.map((name) => `headers: ${name} cannot be set by you`) };
  };
  return Object.freeze({ ...tool, check });
}

function contentOf({ headers: given = {}, body }: Args): { headers: Headers; body: string | undefined } {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) headers.set(name, value);
  if (body === undefined || typeof body === 'string') return { headers, body };
  if (!headers.has('content-type')) headers.set('content-type', 'application/json');
  return { headers, body: jsonText(body) };
}

function refuseCredentials(headers: Headers): void {
  const found = [...headers.keys()].find((name) => name !== 'idempotency-key' && credentialHeader(name));
  if (found === undefined) return;
  const message = `${found} is sent only to hosts that EGRESS_DOMAINS or EGRESS_ALLOWED_HOSTS names`;
  throw new ToolError('capability_blocked', message);
}

function answerOf({ status, headers, body, truncated, url }: EgressResponse, asked: string) {
  const shown = [...headers].filter(([name]) => shownHeaders.test(name)).slice(0, maxHeaders);
  return defined({
    status,
    // After redirects.
    url: url === new URL(asked).href ? undefined : url,
    headers: Object.fromEntries(shown.map(([name, value]) => [name, value.slice(0, maxHeaderChars)])),
    body: bodyText(body, headers.get('content-type') ?? '', truncated),
    truncated,
  });
}

/** Undefined: a host that does not answer is no fault of the tool, and its breaker does not count it. */
const failures: Readonly<Record<EgressError['reason'], ToolErrorKind | undefined>> = {
  private_address: 'capability_blocked',
  domain_not_allowed: 'capability_blocked',
  insecure_url: 'capability_blocked',
  port_not_allowed: 'capability_blocked',
  userinfo: 'capability_blocked',
  invalid_url: 'invalid_input',
  timeout: 'timeout',
  too_many_redirects: undefined,
  too_large: undefined,
  unreachable: undefined,
};

/** The error for the model. */
function failureOf(error: unknown, method: string): ToolOutput {
  if (!(error instanceof EgressError)) throw error;
  const { reason, message, mayHaveArrived } = error;
  if (mayHaveArrived && !readingMethods.has(method))
    throw new ToolError('outcome_unknown', `${message}; the request may have taken effect`, { cause: error });
  const kind = failures[reason];
  if (kind) throw new ToolError(kind, message, { cause: error });
  return new ToolOutput(message, { isError: true });
}

const token = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$/;
// What HTTP allows in a value: no line ends, and no other control characters but the tab.
const fieldValue = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;
/** These would change the method, or name the sender. */
const misleading = /^(proxy-.*|sec-.*|x-http-method(-override)?|x-method-override|x-forwarded-.*|forwarded|x-real-ip)$/;
const credential =
  /(^|[-_.])(auth|authorization|authentication|cookie2?|credentials?|key|apikey|passw(or)?d|secret|session|signature|token)([-_.]|$)/;

/** Why a header cannot be sent, by the model or the operator; undefined when it can. */
function headerProblem(name: string, value: string): string | undefined {
  if (!token.test(name)) return 'a name is not one that a header can have';
  if (!fieldValue.test(value)) return `the value of ${name} has characters that a header cannot have`;
  const lower = name.toLowerCase();
  if (connectionHeaders.includes(lower) || misleading.test(lower)) return `${name} cannot be set`;
  return undefined;
}

/** Does this header, by its name, carry a credential? */
function credentialHeader(name: string): boolean {
  return credential.test(name.toLowerCase());
}

const textual =
  /^(text\/|application\/([\w.+-]*\+)?(json|xml)\b|application\/(javascript|ecmascript|x-www-form-urlencoded|x-ndjson|yaml|x-yaml|toml|graphql|sql)\b|image\/svg\+xml)/;

/**
 * The text of a body by its charset, or a note about what it is. What has no type is text when it can be read as UTF-8. A
 * character that was cut off at the end of a truncated body is left out.
 */
function bodyText(body: Uint8Array, contentType: string, truncated: boolean): string {
  const type = contentType.toLowerCase();
  const charset = /;\s*charset\s*=\s*"?([\w.:-]+)/.exec(type)?.[1] ?? 'utf-8';
  if (textual.test(type)) return decoderOf(charset).decode(body, { stream: truncated });
  if (type.trim() === '' || type.startsWith('application/octet-stream')) {
    const text = utf8Text(body, truncated);
    if (text !== undefined) return text;
  }
  const [kind] = type.split(';', 1);
  return `[not text: ${kind?.trim() || 'no type'}, ${truncated ? 'more than ' : ''}${body.length} bytes]`;
}

function decoderOf(charset: string) {
  try {
    return new TextDecoder(charset);
  } catch {
    return new TextDecoder();
  }
}
