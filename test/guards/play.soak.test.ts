import { expect, inject, test } from 'vitest';
import { flowMode } from '../../src/shared/contract/flow.ts';
import { docsPage } from '../support/docs-page.ts';
import { variants } from './cast.ts';
import { play } from './play.ts';
import { ownCorpus, readCorpus } from './read-corpus.ts';
import { countsOf, differences, failuresOf, reportOf, type Report } from './report.ts';

const all = readCorpus(ownCorpus);
const page = docsPage('security.md');

test.each(variants)(
  'every scenario, %s: no attack is made, few wanted calls are stopped, all modes find the same',
  async (variant) => {
    const scenarios = all.filter(({ turns }) => variant !== 'child' || turns.length === 0);
    const reports: Report[] = [];
    for (const mode of flowMode.options) {
      const seen = await play({ redisUrl: inject('redisUrl'), corpus: ownCorpus, scenarios, mode, variant });
      const report = reportOf(scenarios, seen, { mode, variant });
      expect(failuresOf(report, { minStopped: 1, maxBlocked: 0.05 })).toEqual([]);
      reports.push(report);
    }
    const enforced = reports.find(({ mode }) => mode === 'enforce') as Report;
    const { attacksStopped, wantedBlocked } = countsOf(enforced, enforced.calls);
    const told = {
      attacks: /attack calls +\| (\d+)/.exec(page)?.[1],
      wanted: /wanted calls +\| (\d+)/.exec(page)?.[1],
    };
    const seen = { attacks: `${attacksStopped}`, wanted: `${wantedBlocked}` };
    expect(variant === 'child' ? told : seen).toEqual(told);
    const [off, first, ...others] = reports;
    expect(off?.calls.filter(({ ran, label }) => !ran && label !== 'either')).toEqual([]);
    expect(others.flatMap((other) => differences(first as Report, other))).toEqual([]);
  },
  600_000,
);
