import type { Config } from '../../../shared/contract/config.ts';
import type { Check } from './checks.ts';

const defaultBaseUrl = 'https://api.openai.com/v1';
const deadlineMs = 5_000;

/** Asks the default provider for its list of models, which costs nothing. Never throws and never shows the key. */
export async function checkProvider(config: Config, signal: AbortSignal): Promise<Check> {
  const name = 'provider';
  if (config.MILLRACE_SCRIPT) return { name, level: 'ok', text: `scripted (${config.MILLRACE_SCRIPT})` };
  const key = config.OPENAI_API_KEY;
  if (!key && !config.OPENAI_BASE_URL) {
    if (config.MILLRACE_PROVIDERS)
      return { name, level: 'ok', text: `as ${config.MILLRACE_PROVIDERS} says; not asked` };
    return {
      name,
      level: 'warn',
      text: 'none: the built-in scripted model answers',
      advice: 'set OPENAI_API_KEY, OPENAI_BASE_URL or MILLRACE_PROVIDERS',
    };
  }
  const url = `${(config.OPENAI_BASE_URL ?? defaultBaseUrl).replace(/\/$/, '')}/models`;
  const { host } = new URL(url);
  try {
    const answer = await fetch(url, {
      headers: key ? { authorization: `Bearer ${key}` } : {},
      signal: AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]),
    });
    await answer.body?.cancel();
    return judge(name, host, answer.status);
  } catch {
    return {
      name,
      level: 'fail',
      text: `${host} cannot be reached`,
      advice: 'check OPENAI_BASE_URL, the proxy and the network',
    };
  }
}

function judge(name: string, host: string, status: number): Check {
  if (status === 401 || status === 403) {
    return { name, level: 'fail', text: `${host} does not accept the key (${status})`, advice: 'check OPENAI_API_KEY' };
  }
  if (status >= 500)
    return {
      name,
      level: 'fail',
      text: `${host} answers ${status}`,
      advice: 'the provider has trouble; runs are retried',
    };
  // A compatible server need not have this list: any answer shows that it is there.
  return { name, level: 'ok', text: `${host} answers` };
}
