import { z } from 'zod';

/** A value that is written down, or the name of a tool secret whose value takes its place in the worker. */
export const configValue = z.union(
  [z.string(), z.strictObject({ secret: z.string().min(1) })],
  'must be text or { secret: NAME }',
);

const common = {
  /** `false`: an agent runs without its tools when it cannot be reached. Default: the run fails with `mcp_unavailable`. */
  required: z.boolean().default(true),
  /** Longest wait for the connection and the list of tools. */
  connectTimeoutMs: z.int().min(100).max(300_000).default(30_000),
  /** Of one call, unless `toolOptions` says otherwise. */
  timeoutMs: z.int().min(1).max(86_400_000).default(60_000),
  /** `read` and `idempotent` calls may be repeated after a crash. Default `once`: what a server does is not known. */
  effect: z.enum(['read', 'idempotent', 'once']).default('once'),
  /**
   * What becomes of a tool whose description, schemas or annotations are not those of the server's first use any more, or that
   * was not there then. `refuse`: models do not see it, and a call of it fails. `confirm`: a call of it waits for a person,
   * who sees what has changed. `off` (default): the server may change them.
   */
  pin: z.enum(['off', 'refuse', 'confirm']).default('off'),
};

/** A server that the worker starts as a child process, one for each run. It sees no environment but `env` and PATH. */
export const stdioServer = z.strictObject({
  command: z.string().min(1),
  args: z.array(z.string()).max(100).default([]),
  env: z.record(z.string(), configValue).default({}),
  cwd: z.string().optional(),
  ...common,
});

/** A server that is reached over streamable HTTP, one connection for each worker. */
export const httpServer = z.strictObject({
  url: z.url({ protocol: /^https?$/ }),
  headers: z.record(z.string(), configValue).default({}),
  ...common,
});

export const mcpServer = z.union([stdioServer, httpServer], 'must have `command` or `url`, and no unknown fields');
export const mcpServers = z.record(
  // No `__`: it ends the server's name in the name of a tool.
  z.string().regex(/^(?!.*__)[A-Za-z0-9_-]{1,32}$/, 'must be 1 to 32 of A-Z a-z 0-9 _ -, without __'),
  mcpServer,
);
export type McpServer = z.output<typeof mcpServer>;
export type StdioServer = z.output<typeof stdioServer>;
export type HttpServer = z.output<typeof httpServer>;

/** Where an agent, a rule or a grant means a server's tool: `mcp:<server>/<tool>`. */
export const serverPrefix = 'mcp:';

/** Both parts of `mcp:<server>/<tool>`, the second one absent for a whole server. */
export function serverTool(name: string): { readonly server: string; readonly tool?: string } {
  const rest = name.slice(serverPrefix.length);
  const slash = rest.indexOf('/');
  return slash === -1 ? { server: rest } : { server: rest.slice(0, slash), tool: rest.slice(slash + 1) };
}
