import { defined } from '../../../shared/base/defined.ts';
import type { RateLimitReport, RateLimitWindow } from '../../../shared/contract/limits.ts';

const maxResetMs = 86_400_000;
const msPerUnit: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * What `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` say; undefined when they say nothing. Values that cannot
 * be read count as not sent. A reset is at most a day.
 */
export function rateLimitOf(headers: Headers): RateLimitReport | undefined {
  const requests = windowOf(headers, 'requests');
  const tokens = windowOf(headers, 'tokens');
  if (!requests && !tokens) return undefined;
  return defined({ requests, tokens });
}

function windowOf(headers: Headers, what: 'requests' | 'tokens'): RateLimitWindow | undefined {
  const limit = countOf(headers.get(`x-ratelimit-limit-${what}`));
  const remaining = countOf(headers.get(`x-ratelimit-remaining-${what}`));
  const resetMs = durationMs(headers.get(`x-ratelimit-reset-${what}`));
  if (limit === undefined && remaining === undefined && resetMs === undefined) return undefined;
  return defined({ limit, remaining, resetMs });
}

function countOf(text: string | null): number | undefined {
  return text !== null && /^\s*\d{1,15}\s*$/.test(text) ? Number(text) : undefined;
}

/** Milliseconds of `1s`, `6m0s`, `120ms`, `1h2m3.5s`, or of a plain number of seconds. */
function durationMs(text: string | null): number | undefined {
  const trimmed = text?.trim() ?? '';
  if (/^\d{1,15}(\.\d+)?$/.test(trimmed)) return bounded(Number(trimmed) * 1_000);
  if (!/^(\d{1,15}(\.\d+)?(ms|s|m|h|d))+$/.test(trimmed)) return undefined;
  let total = 0;
  for (const [, count, unit = ''] of trimmed.matchAll(/([\d.]+)(ms|s|m|h|d)/g)) {
    total += Number(count) * (msPerUnit[unit] ?? 0);
  }
  return bounded(total);
}

function bounded(ms: number): number {
  return Math.min(Math.ceil(ms), maxResetMs);
}
