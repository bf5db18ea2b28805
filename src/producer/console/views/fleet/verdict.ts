import type { Check, FleetView } from '../../../../shared/contract/report/fleet.ts';
import { isLate } from './late.ts';

/** What is to be seen to, the worst first. */
export function findingsIn(checks: readonly Check[]): readonly Check[] {
  return (['fail', 'warn'] as const).flatMap((level) => checks.filter((check) => check.level === level));
}

/** The same as far as it shows without doctor, which speaks to operators only. */
export function findingsOf({ workers, queues, breakers, providers }: FleetView): readonly Check[] {
  const late = workers.filter(isLate).map(({ name }) => name);
  const open = breakers.filter(({ openForMs = 0 }) => openForMs > 0).map(({ target }) => target);
  const unserved = Object.entries(queues)
    .filter(([, queue]) => queue.workers === 0 && queue.waiting + queue.delayed > 0)
    .map(([name]) => name);
  const failing = providers
    .filter(({ lastError, lastAnswerAt = '' }) => lastError && lastError.at > lastAnswerAt)
    .map(({ id }) => id);
  const finding = (level: 'fail' | 'warn', name: string, text: string, of: readonly string[]): readonly Check[] =>
    of.length === 0 ? [] : [{ level, name, text: `${text}: ${of.join(', ')}` }];
  return [
    ...(workers.length === 0 ? [{ level: 'fail', name: 'workers', text: 'none is alive: runs wait' } as const] : []),
    ...finding('fail', 'queues', 'runs wait where no worker serves', unserved),
    ...finding('fail', 'breakers', 'not called, because they failed', open),
    ...finding('warn', 'workers', 'no sign of life from', late),
    ...finding('warn', 'providers', 'the last call failed at', failing),
  ];
}

/** One sentence about all of it. */
export function verdictOf(findings: readonly Check[]): {
  readonly tone: 'good' | 'wait' | 'bad';
  readonly text: string;
} {
  const fails = findings.filter(({ level }) => level === 'fail').length;
  const warns = findings.length - fails;
  const warnings = warns === 0 ? '' : `${warns} ${warns === 1 ? 'warning' : 'warnings'}`;
  if (fails > 0) {
    const text = `${fails} ${fails === 1 ? 'thing needs' : 'things need'} attention`;
    return { tone: 'bad', text: warns === 0 ? text : `${text}, and ${warnings}` };
  }
  return warns === 0 ? { tone: 'good', text: 'Healthy' } : { tone: 'wait', text: `Works, with ${warnings}` };
}

/** Where one goes on from a line of doctor: another view, or a part of this one. */
const places: Readonly<Record<string, readonly [href: string, label: string]>> = {
  'failed jobs': ['/runs?status=failed', 'Look at the failed runs'],
  'stuck runs': ['/runs?status=queued', 'Look at the queued runs'],
  approvals: ['/approvals', 'Look at what waits for people'],
  budgets: ['/money', 'Look at the budgets'],
  threads: ['/threads', 'Look at the threads'],
  'post-run jobs': ['/threads', 'Look at the threads'],
  batches: ['/batches', 'Look at the batches'],
  flows: ['/audit?kind=flow', 'Look at the flows in the audit log'],
  audit: ['/audit?kind=flow', 'Look at the flows in the audit log'],
  workers: ['#workers-title', 'Workers'],
  queues: ['#queues-title', 'Queues'],
  quarantine: ['#queues-title', 'Queues'],
  breakers: ['#breakers-title', 'Breakers'],
  'provider limits': ['#limits-title', 'Limits in use'],
  providers: ['#providers-title', 'Model providers'],
};

export function placeOf(name: string): readonly [href: string, label: string] | undefined {
  if (name.startsWith('queue ')) return places['queues'];
  return name.startsWith('provider ') && name !== 'provider limits' ? places['providers'] : places[name];
}
