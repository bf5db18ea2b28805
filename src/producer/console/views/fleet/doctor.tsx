import type { Check, FleetView as Fleet } from '../../../../shared/contract/report/fleet.ts';
import { useQuery, type Query } from '../../query.ts';
import { may } from '../../session.ts';
import { SimpleTable } from '../../ui/simple-table.tsx';
import { Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { findingsIn, findingsOf, placeOf, verdictOf } from './verdict.ts';
import '../../styles/charts.css';

const everyMs = 10_000;
const tones = { fail: 'bad', warn: 'wait', ok: 'good' } as const;

export type Doctor = Query<{ readonly checks: readonly Check[] }>;

/** Examines again and again; asks nothing for a session that may not see it. */
export function useDoctor(): Doctor {
  return useQuery(may('admin') ? '/v1/doctor' : undefined, everyMs);
}

/** In one sentence how the fleet is, and below it what is to be seen to. */
export function Verdict({ fleet, doctor }: { fleet: Fleet; doctor: Doctor }) {
  const isKnown = doctor.data !== undefined;
  const findings = doctor.data ? findingsIn(doctor.data.checks) : findingsOf(fleet);
  const { tone, text } = verdictOf(findings);
  return (
    <section aria-label="How it is">
      <p class="verdict" role="status">
        <Status status={tone} tone={tone} label={text} />
        {!isKnown && (
          <span class="soft">
            {' '}
            {doctor.error
              ? 'by what the workers say: doctor could not examine it'
              : may('admin')
                ? 'by what the workers say; doctor examines it…'
                : 'by what the workers say'}
          </span>
        )}
      </p>
      {findings.length > 0 && (
        <ul class="findings" aria-label="What to see to">
          {findings.map((check, at) => (
            <li key={`${at} ${check.name}`}>
              <Finding check={check} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Finding({ check: { name, level, text, advice } }: { check: Check }) {
  const place = placeOf(name);
  return (
    <>
      <Status status={level} tone={tones[level]} label={name} />
      <span>
        {text}
        {place && (
          <>
            {'. '}
            <a href={place[0]}>{place[1]}</a>
          </>
        )}
        {advice && <span class="soft"> {advice}</span>}
      </span>
    </>
  );
}

/** All that `millrace doctor` says, what needs attention first. */
export function Checks({ doctor: { data, error, reload } }: { doctor: Doctor }) {
  return (
    <section class="card stack" aria-labelledby="doctor-title">
      <h2 id="doctor-title">What doctor says</h2>
      {!may('admin') ? (
        <p class="soft">Only a key with the scope admin sees this.</p>
      ) : data ? (
        <Lines checks={data.checks} />
      ) : error ? (
        <Problem error={error} retry={reload} />
      ) : (
        <Loading what="Examining" />
      )}
    </section>
  );
}

function Lines({ checks }: { checks: readonly Check[] }) {
  const sorted = [...findingsIn(checks), ...checks.filter(({ level }) => level === 'ok')];
  return (
    <SimpleTable
      label="What doctor says"
      rows={sorted.map((check, i) => ({ ...check, key: `${i}:${check.name}` }))}
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
