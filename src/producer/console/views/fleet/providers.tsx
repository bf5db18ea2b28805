import type { FleetView, ProviderLimit } from '../../../../shared/contract/report/fleet.ts';
import type { ProviderReport } from '../../../../shared/contract/provider-report.ts';
import { formatCount } from '../../ui/money.tsx';
import { Share } from '../../ui/share.tsx';
import { SimpleTable } from '../../ui/simple-table.tsx';
import { Status } from '../../ui/status.tsx';
import { formatDuration, Time } from '../../ui/time.tsx';

/** What providers allow the fleet, and what of it is in use now. */
export function Limits({ limits }: { limits: readonly ProviderLimit[] }) {
  return (
    <section class="card stack" aria-labelledby="limits-title">
      <h2 id="limits-title">Provider limits in use</h2>
      {limits.length === 0 ? (
        <p class="soft">No model was asked in the last day.</p>
      ) : (
        <SimpleTable
          label="Provider limits in use"
          rows={limits.map((limit, i) => ({ ...limit, key: `${i}:${limit.model}` }))}
          keyOf={({ key }) => key}
          columns={[
            { label: 'Model', cell: ({ model }) => model },
            {
              label: 'Requests',
              cell: (of) => <Use used={of.usedRequests} allowed={of.requests} windowMs={of.windowMs} />,
            },
            { label: 'Tokens', cell: (of) => <Use used={of.usedTokens} allowed={of.tokens} windowMs={of.windowMs} /> },
            { label: 'Calls now', cell: (of) => <Use used={of.inFlight} allowed={of.concurrency} /> },
            {
              label: 'Waiting',
              align: 'end',
              cell: ({ waiting }) => <span class="number">{formatCount(waiting)}</span>,
            },
            { label: 'State', cell: (of) => <LimitState limit={of} /> },
          ]}
        />
      )}
    </section>
  );
}

function Use({ used, allowed, windowMs }: { used: number; allowed: number; windowMs?: number }) {
  const within = windowMs === undefined || allowed === 0 ? '' : ` in ${formatDuration(windowMs)}`;
  return (
    <>
      <span class="number">
        {formatCount(used)}
        {allowed > 0 ? ` of ${formatCount(allowed)}${within}` : ''}
      </span>
      {allowed > 0 && <Share used={used} whole={allowed} />}
    </>
  );
}

function LimitState({ limit: { cooldownMs, waiting } }: { limit: ProviderLimit }) {
  if (cooldownMs > 0)
    return <Status status="cooling" tone="bad" label={`refused; asked again in ${formatDuration(cooldownMs)}`} />;
  if (waiting > 0) return <Status status="waiting" tone="wait" label="runs wait for their turn" />;
  return <Status status="free" tone="good" label="free" />;
}

/** Models and tools that failed lately. */
export function Breakers({ breakers }: Pick<FleetView, 'breakers'>) {
  return (
    <section class="card stack" aria-labelledby="breakers-title">
      <h2 id="breakers-title">Breakers</h2>
      {breakers.length === 0 ? (
        <p class="soft">No model and no tool is left alone because it failed.</p>
      ) : (
        <SimpleTable
          label="Breakers"
          rows={breakers}
          keyOf={({ target }) => target}
          columns={[
            { label: 'Model or tool', cell: ({ target }) => target },
            { label: 'Failures', align: 'end', cell: ({ failures }) => <span class="number">{failures}</span> },
            { label: 'State', cell: ({ openForMs }) => <BreakerState openForMs={openForMs} /> },
          ]}
        />
      )}
    </section>
  );
}

function BreakerState({ openForMs }: { openForMs: number | undefined }) {
  if (openForMs === undefined) return <Status status="closed" tone="good" label="called as usual" />;
  if (openForMs === 0) return <Status status="half_open" tone="wait" label="the next call finds out" />;
  return <Status status="open" tone="bad" label={`not called for ${formatDuration(openForMs)}`} />;
}

const endpointWords = {
  answers: ['good', 'answers'],
  refuses_key: ['bad', 'refuses the key'],
  fails: ['bad', 'fails'],
  unreachable: ['bad', 'cannot be reached'],
} as const;

/** Model providers as the workers report them. */
export function Providers({ providers }: { providers: readonly ProviderReport[] }) {
  return (
    <section class="card stack" aria-labelledby="providers-title">
      <h2 id="providers-title">Model providers</h2>
      {providers.length === 0 ? (
        <p class="soft">No worker reports any.</p>
      ) : (
        <SimpleTable
          label="Model providers"
          rows={providers}
          keyOf={({ id }) => id}
          columns={[
            { label: 'Provider', cell: ({ id }) => id },
            { label: 'Host', cell: ({ host, kind }) => host ?? <span class="soft">{kind}</span> },
            { label: 'Key', cell: ({ hasKey }) => (hasKey ? 'there' : <span class="soft">none</span>) },
            { label: 'State', cell: (provider) => <ProviderState provider={provider} /> },
            { label: 'Last answer', cell: ({ lastAnswerAt }) => <Time at={lastAnswerAt} /> },
          ]}
        />
      )}
    </section>
  );
}

function ProviderState({ provider: { endpoint, lastError, lastAnswerAt = '' } }: { provider: ProviderReport }) {
  if (lastError && lastError.at > lastAnswerAt)
    return (
      <>
        <Status status="error" tone="bad" label={`${lastError.kind.replaceAll('_', ' ')} (${lastError.model})`} />
        {lastError.message && <div class="soft">{lastError.message}</div>}
      </>
    );
  // An answer to a call says more than an earlier look at the endpoint.
  const hasAnswered = lastAnswerAt > (endpoint?.at ?? '');
  if (!endpoint && !hasAnswered) return <span class="soft">not asked yet</span>;
  const state = hasAnswered || !endpoint ? 'answers' : endpoint.state;
  const [tone, label] = endpointWords[state];
  return <Status status={state} tone={tone} label={label} />;
}
