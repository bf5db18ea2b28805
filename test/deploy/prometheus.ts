import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { promtool } from '../../scripts/promtool.ts';

const tool = promtool(process.env);

/** Why the alerts cannot be tried out on this machine; undefined when they can. */
export const withoutPromtool = 'missing' in tool ? tool.missing : undefined;
if (process.env['CI'] && withoutPromtool) throw new Error(`nothing may be left out on CI: ${withoutPromtool}`);

/** One look at all processes: the value of each series by its name with labels, as Prometheus would keep it. */
export type Scrape = ReadonlyMap<string, string>;

export interface Target {
  readonly job: string;
  readonly instance: string;
  readonly url: string;
}

/** Scrapes every target. One that does not answer has no series. */
export async function scrape(targets: readonly Target[]): Promise<Scrape> {
  const lines = await Promise.all(
    targets.map(async ({ job, instance, url }) => {
      const text = await fetch(`${url}/metrics`).then(
        (response) => response.text(),
        () => '',
      );
      return samples(text).map(([series, value]) => [labelled(series, { job, instance }), value] as const);
    }),
  );
  return new Map(lines.flat());
}

/** The samples of the text format: one a line, its value after the last blank, no time stamps. */
function samples(text: string): (readonly [string, string])[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('millrace_'))
    .map((line) => [line.slice(0, line.lastIndexOf(' ')), line.slice(line.lastIndexOf(' ') + 1)]);
}

/** Prometheus adds the labels of the target to what it scrapes. */
function labelled(series: string, { job, instance }: { readonly job: string; readonly instance: string }): string {
  const own = `instance="${instance}",job="${job}"`;
  return series.endsWith('}') ? `${series.slice(0, -1)},${own}}` : `${series}{${own}}`;
}

/** Minutes before anything happens, and after. */
const [calmMinutes, minutes] = [60, 60];

/** What happens after the calm: it happened once, or again every minute. */
export type Recurrence = 'once' | 'every minute';

/**
 * Lets promtool play an hour as it was before and an hour of what came after. Answers what it says when an alert fires in
 * the first hour, or others than these do so many minutes into the second; nothing when all is as it should be.
 */
export function playAlerts(
  rules: string,
  scrapes: { readonly before: Scrape; readonly after: Scrape; readonly recurs: Recurrence },
  { firing, minutesAfter }: { readonly firing: readonly string[]; readonly minutesAfter: number },
): string {
  const names = [...new Set([...scrapes.before.keys(), ...scrapes.after.keys()])];
  const firingAt = (minute: number, names: readonly string[]) => ({
    expr: 'max by (alertname) (ALERTS{alertstate="firing"})',
    eval_time: `${minute}m`,
    exp_samples: names.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
  });
  const played = {
    interval: '1m',
    input_series: names.map((series) => ({ series, values: valuesOf(series, scrapes) })),
    promql_expr_test: [firingAt(calmMinutes - 1, []), firingAt(calmMinutes + minutesAfter, firing)],
  };
  const folder = mkdtempSync(join(tmpdir(), 'millrace-alerts-'));
  try {
    const path = join(folder, 'alerts.test.yaml');
    writeFileSync(path, stringify({ rule_files: [rules], evaluation_interval: '1m', tests: [played] }));
    const { status, stdout, stderr } = run(['test', 'rules', path]);
    return status === 0 ? '' : `${stdout}${stderr}`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The sum of a metric over all its series, as far as their labels contain a text. */
export function total(scraped: Scrape, metric: string, labels = ''): number {
  const values = [...scraped].filter(([series]) => series.startsWith(`${metric}{`) && series.includes(labels));
  return values.reduce((sum, [, value]) => sum + Number(value), 0);
}

/** What promtool has to say about a file of rules. */
export function checkRules(rules: string): { status: number | null; stdout: string; stderr: string } {
  return run(['check', 'rules', rules]);
}

function valuesOf(
  series: string,
  { before, after, recurs }: { readonly before: Scrape; readonly after: Scrape; readonly recurs: Recurrence },
): string {
  const [old, now] = [before.get(series), after.get(series)];
  const calmly = old === undefined ? `_x${calmMinutes}` : `${old}+0x${calmMinutes - 1}`;
  // A target that no longer answers leaves stale series, which are gone at once.
  if (now === undefined) return `${calmly} stale _x${minutes - 1}`;
  const rise = Number(now) - Number(old ?? 0);
  const grows = recurs === 'every minute' && isCounter(series);
  return `${calmly} ${now}+${grows ? rise : 0}x${minutes}`;
}

function isCounter(series: string): boolean {
  return /_(total|count|sum|bucket)$/.test(series.replace(/\{.*/s, ''));
}

function run(args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  if ('missing' in tool) throw new Error(tool.missing);
  return spawnSync(tool.path, args, { encoding: 'utf8', timeout: 60_000 });
}
