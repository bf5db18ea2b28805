/** The names in the URL of the list. */
export const filterNames = [
  'status',
  'agent',
  'batch',
  'thread',
  'parent',
  'since',
  'from',
  'to',
  'errorCode',
  'minCost',
  'metadata',
];

const windowsMs: Readonly<Record<string, number>> = {
  '15m': 900_000,
  '1h': 3_600_000,
  '24h': 86_400_000,
  '7d': 604_800_000,
};
export const windows = [
  { value: '15m', label: 'last 15 minutes' },
  { value: '1h', label: 'last hour' },
  { value: '24h', label: 'last 24 hours' },
  { value: '7d', label: 'last 7 days' },
];

export type Values = Readonly<Record<string, string>>;

/** What the producer is asked for: as a filter in JSON, and as parameters of a URL. */
export interface AskedRuns {
  readonly filter: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** By field: what is wrong with what was typed. That field is left out. */
  readonly problems: Readonly<Record<string, string>>;
}

/** From the URL of the list. `now` decides what the last hour is. */
export function askedRuns(values: Values, now: number): AskedRuns {
  const problems: Record<string, string> = {};
  const metadata = pairsOf(values['metadata'], problems);
  const windowMs = windowsMs[values['since'] ?? ''];
  const plain = {
    status: values['status'],
    agent: values['agent'],
    batch: values['batch'],
    thread: values['thread'],
    parent: values['parent'],
    errorCode: values['errorCode'],
    after: windowMs === undefined ? timeOf(values['from']) : new Date(now - windowMs).toISOString(),
    before: timeOf(values['to']),
  };
  const minCostMicrocents = costOf(values['minCost'], problems);
  const given = Object.fromEntries(Object.entries(plain).filter(([, value]) => value !== undefined && value !== ''));
  return {
    filter: {
      ...given,
      ...(minCostMicrocents !== undefined && { minCostMicrocents }),
      ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) }),
    },
    query: {
      ...given,
      ...(minCostMicrocents !== undefined && { minCostMicrocents: String(minCostMicrocents) }),
      ...Object.fromEntries(metadata.map(([key, value]) => [`metadata.${key}`, value])),
    },
    problems,
  };
}

/** `user=u1, plan=pro` */
function pairsOf(text: string | undefined, problems: Record<string, string>): (readonly [string, string])[] {
  if (text === undefined) return [];
  const parts = text.split(',').map((part) => part.trim());
  const pairs = parts.filter((part) => part !== '').map((part) => /^([^=]+)=(.+)$/.exec(part));
  if (pairs.some((pair) => pair === null)) problems['metadata'] = 'Write key=value, and a comma between several.';
  return pairs.flatMap((pair) => (pair?.[1] && pair[2] ? [[pair[1].trim(), pair[2].trim()] as const] : []));
}

/** Dollars, as microcents. */
function costOf(text: string | undefined, problems: Record<string, string>): number | undefined {
  if (text === undefined) return undefined;
  const dollars = Number(text);
  if (Number.isFinite(dollars) && dollars >= 0) return Math.round(dollars * 1e8);
  problems['minCost'] = 'Write an amount in dollars, such as 0.05.';
  return undefined;
}

function timeOf(text: string | undefined): string | undefined {
  if (text === undefined || Number.isNaN(Date.parse(text))) return undefined;
  return new Date(text).toISOString();
}
