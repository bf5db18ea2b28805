import type { Config } from '../../shared/contract/config.ts';
import { Redactor } from '../../shared/base/redact.ts';
import { redisSecrets } from '../../shared/state/connect.ts';
import { behind, singleProvider, wrapped } from './agent-models.ts';
import type { Middleware } from '../llm/backends/middleware.ts';
import type { LlmProvider } from '../llm/provider.ts';
import { createProviders, withResolver, type ModelResolver, type Providers } from '../llm/backends/providers.ts';
import { scrubbed } from '../llm/scrubbed.ts';
import { createToolSecrets, type ToolSecrets } from './tool-secrets.ts';

export interface BoundaryOptions {
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Serves every model, instead of the providers that the settings name. */
  readonly provider?: LlmProvider | undefined;
  readonly middleware?: readonly Middleware[] | undefined;
  readonly resolveModel?: ModelResolver | undefined;
}

/** What a process may reach with its credentials, and what keeps them inside. */
export interface Boundary {
  readonly secrets: ToolSecrets;
  readonly providers: Providers;
  /** Knows every credential of the process, those too that its providers look up and its MCP servers are given. */
  readonly redactor: Redactor;
}

/**
 * The one place where a process, worker or library, gathers its credentials. Throws `invalid_config` listing what is wrong
 * with the providers, or with the secrets of tools, and `middleware_order_violation`.
 */
export function createBoundary({ config, env, provider, middleware = [], resolveModel }: BoundaryOptions): Boundary {
  const configured = provider ? singleProvider(provider) : createProviders(config, (name) => env[name]);
  const secrets = createToolSecrets({ folder: config.MILLRACE_SECRETS, env });
  const redactor = new Redactor([
    ...configured.secrets,
    config.OPENAI_API_KEY,
    ...secrets.values(),
    ...redisSecrets(config.REDIS_URL),
    ...storeSecrets(config, env),
  ]);
  const providers = behind(middleware, withResolver(configured, resolveModel));
  return { secrets, redactor, providers: wrapped(providers, (one) => scrubbed(one, redactor)) };
}

/** What the client of the artifact store takes from the environment by itself. */
function storeSecrets({ ARTIFACT_STORE }: Config, env: BoundaryOptions['env']): readonly (string | undefined)[] {
  return ARTIFACT_STORE.kind === 's3' ? [env['AWS_SECRET_ACCESS_KEY'], env['AWS_SESSION_TOKEN']] : [];
}
