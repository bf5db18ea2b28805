import { isOfProvider, type ProviderReport } from '../../../shared/contract/provider-report.ts';
import type { Diagnosis, WorkerFacts } from './diagnose.ts';
import { duration, oneLine } from '../../../shared/base/words.ts';
import { fail, ok, warn, type Check } from './check.ts';

const recentMs = 24 * 3_600_000;
const shownWorkers = 3;

type Reported = ProviderReport & { readonly worker: string };

/** The model providers as the workers have them: a line each, and one for each difference between workers. */
export function checkProviders({ workers }: Pick<Diagnosis, 'workers'>, nowMs: number): Check[] {
  if (workers.length === 0) {
    const advice =
      'start one: millrace worker; `millrace doctor --here` shows what one started in this shell would use';
    return [warn('provider', 'no worker is running, so none is known', advice)];
  }
  const reports = workers.flatMap(({ name, providers }) =>
    providers.map((one): Reported => ({ ...one, worker: name })),
  );
  if (reports.length === 0) return [ok('provider', 'the workers, of an earlier version, do not report any')];
  const byId = Map.groupBy(reports, ({ id }) => id);
  return [...byId.values()].flatMap((of) => {
    const alike = [...Map.groupBy(of, keyOf).values()];
    return alike.map((same) => lineOf(same, alike.length > 1 || same.length < workers.length, workers, nowMs));
  });
}

/** Equal for workers that have the same to say, whenever it happened. */
function keyOf({ kind, host, hasKey, endpoint, lastError, lastAnswerAt = '' }: Reported): string {
  const error = lastError && lastError.at > lastAnswerAt ? [lastError.kind, lastError.status] : [];
  return [kind, host, hasKey, endpoint?.state, endpoint?.status, ...error].join(' ');
}

function lineOf(same: readonly Reported[], isPart: boolean, workers: readonly WorkerFacts[], nowMs: number): Check {
  const latest = same.reduce((a, b) => ((b.lastError?.at ?? '') > (a.lastError?.at ?? '') ? b : a));
  const check = judged(latest, nowMs);
  if (!isPart) return check;
  const names = same.slice(0, shownWorkers).map(({ worker }) => worker);
  const more = same.length > names.length ? ' …' : '';
  return { ...check, text: `${check.text} (${same.length} of ${workers.length} workers: ${names.join(', ')}${more})` };
}

function judged(report: ProviderReport, nowMs: number): Check {
  const { id, kind, host = kind, hasKey, endpoint, lastError, lastAnswerAt = '' } = report;
  const name = `provider ${id}`;
  if (kind === 'builtin') {
    const advice = 'set OPENAI_API_KEY, OPENAI_BASE_URL or MILLRACE_PROVIDERS where workers start';
    return warn(name, 'no model provider is configured: the built-in scripted model answers', advice);
  }
  if (kind === 'scripted') return ok(name, 'a script answers (MILLRACE_SCRIPT)');
  const isNews = lastError !== undefined && lastError.at > lastAnswerAt;
  const error = isNews ? `; last error ${errorText(lastError, nowMs)}` : '';
  const key = kind === 'custom' ? '' : hasKey ? ', with a key' : ', without a key';
  const isSeen = endpoint !== undefined && endpoint.at > lastAnswerAt;
  if (isSeen && endpoint.state === 'refuses_key')
    return fail(
      name,
      `${host} does not accept the key (${endpoint.status})${error}`,
      'check the key where workers start',
    );
  if (isSeen && endpoint.state === 'fails')
    return fail(name, `${host} answers ${endpoint.status}${error}`, 'the provider has trouble; runs are retried');
  if (isSeen && endpoint.state === 'unreachable') {
    const advice = 'check its base URL, and the proxy and the network of the workers';
    return fail(name, `${host} cannot be reached${error}`, advice);
  }
  const isKnown = endpoint !== undefined || lastAnswerAt !== '';
  const text = `${host}${key}${isKnown ? ', answers' : ''}${error}`;
  const isRecent = isNews && nowMs - Date.parse(lastError.at) < recentMs && isOfProvider(lastError.kind);
  if (!isRecent) return ok(name, text);
  if (lastError.kind === 'auth') return fail(name, text, 'check the key where workers start');
  return warn(name, text, 'runs are retried, or use their fallback models');
}

function errorText(
  { kind, status, message, model, at }: NonNullable<ProviderReport['lastError']>,
  nowMs: number,
): string {
  const what = [kind, status].filter((part) => part !== undefined).join(' ');
  const ago = duration(Math.max(0, nowMs - Date.parse(at)));
  return `${ago} ago: ${what} for ${oneLine(model, 80)}${message === undefined ? '' : `: ${oneLine(message, 160)}`}`;
}
