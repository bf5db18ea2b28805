import type { Check } from '../../../../shared/contract/report/fleet.ts';
import { useQuery } from '../../query.ts';
import { may } from '../../session.ts';
import { SimpleTable } from '../../ui/simple-table.tsx';
import { Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';

const everyMs = 10_000;
const order = ['fail', 'warn', 'ok'] as const;
const tones = { fail: 'bad', warn: 'wait', ok: 'good' } as const;

/** What `millrace doctor` says, what needs attention first. */
export function Doctor() {
  return (
    <section class="card stack" aria-labelledby="doctor-title">
      <h2 id="doctor-title">What doctor says</h2>
      {may('admin') ? <Checks /> : <p class="soft">Only a key with the scope admin sees this.</p>}
    </section>
  );
}

function Checks() {
  const { data, error, reload } = useQuery<{ readonly checks: readonly Check[] }>('/v1/doctor', everyMs);
  if (!data) return error ? <Problem error={error} retry={reload} /> : <Loading what="Examining" />;
  const checks = order.flatMap((level) => data.checks.filter((check) => check.level === level));
  return (
    <SimpleTable
      label="What doctor says"
      rows={checks.map((check, i) => ({ ...check, key: `${i}:${check.name}` }))}
      keyOf={({ key }) => key}
      columns={[
        { label: 'State', cell: ({ level }) => <Status status={level} tone={tones[level]} label={level} /> },
        { label: 'What', cell: ({ name }) => name },
        {
          label: 'Found',
          cell: ({ text, advice, level }) => (
            <>
              {text}
              {advice && level !== 'ok' && <div class="soft">{advice}</div>}
            </>
          ),
        },
      ]}
    />
  );
}
