import { dirname } from 'node:path';
import { RunError } from '../../../shared/base/errors.ts';
import type { HttpServer, McpServer, StdioServer } from '../../../shared/contract/agent/mcp.ts';
import { isSecretName } from '../../../shared/base/redact.ts';
import type { HttpAddress } from './http.ts';
import type { StdioCommand } from './stdio.ts';

/** Where a server is, with the values of its secrets. */
export type Endpoint =
  | { readonly kind: 'stdio'; readonly command: StdioCommand }
  | { readonly kind: 'http'; readonly address: HttpAddress };

export interface ResolvedServer {
  readonly endpoint: Endpoint;
  /** What must not be seen anywhere. */
  readonly secrets: readonly string[];
}

interface Secrets {
  get(name: string): string | undefined;
}

/** Where the commands of servers are looked for: the worker's own environment is none of their business. */
const path = [dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(':');

/**
 * Puts the values of secrets in their places. Throws `mcp_unavailable` for a secret that this worker does not have, and for
 * a value that cannot be sent: the error names it and never shows its value.
 */
export function resolveServer(name: string, server: McpServer, secrets: Secrets): ResolvedServer {
  const used: string[] = [];
  const valueOf = (kind: string, field: string, value: StdioServer['env'][string]): string => {
    if (typeof value === 'string') {
      // One that the agent's file has in the clear.
      if (holdsCredential(field)) used.push(value, ...schemeless(value));
      return value;
    }
    const secret = secrets.get(value.secret);
    if (secret === undefined)
      throw unusable(name, `this worker does not have the secret ${value.secret} for ${kind} ${field}`);
    used.push(secret);
    return secret;
  };
  if (isHttp(server)) {
    const headers = mapped(server.headers, (header, value) => {
      const text = valueOf('header', header, value);
      if (!/^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(text) || !/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(header))
        throw unusable(name, `header ${header} cannot be sent: HTTP does not allow its characters`);
      return text;
    });
    return { endpoint: { kind: 'http', address: { url: server.url, headers } }, secrets: used };
  }
  const { command, args, cwd } = server;
  const env = mapped(server.env, (variable, value) => {
    const text = valueOf('environment variable', variable, value);
    // oxlint-disable-next-line no-control-regex -- the one character that an environment cannot have
    if (/\u0000/.test(text) || /[=\u0000]/.test(variable) || variable === '')
      throw unusable(name, `environment variable ${variable} cannot be set: it has a character that is not allowed`);
    return text;
  });
  return { endpoint: { kind: 'stdio', command: { command, args, cwd, env: { PATH: path, ...env } } }, secrets: used };
}

/** Here a `GITHUB_TOKEN` and an `x-key` are credentials, too: a server is given no counters. */
function holdsCredential(field: string): boolean {
  return isSecretName(field) || /(^|[_-])(token|key|pat|pass|pwd)$/i.test(field);
}

/** What follows the scheme of an `Authorization` header. */
function schemeless(text: string): readonly string[] {
  const space = text.indexOf(' ');
  return space > 0 ? [text.slice(space + 1)] : [];
}

export function isHttp(server: McpServer): server is HttpServer {
  return 'url' in server;
}

export function unusable(server: string, why: string, cause?: unknown): RunError {
  return new RunError('mcp_unavailable', `MCP server ${server}: ${why}`, cause === undefined ? {} : { cause });
}

function mapped<T>(fields: Readonly<Record<string, T>>, map: (name: string, value: T) => string) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, map(name, value)]));
}
