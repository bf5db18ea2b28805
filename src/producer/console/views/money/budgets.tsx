import { useState } from 'preact/hooks';
import type { BudgetView } from '../../../../shared/contract/money.ts';
import { useQuery } from '../../query.ts';
import { may } from '../../session.ts';
import { formatCount, formatMoney, Money } from '../../ui/money.tsx';
import { Share } from '../../ui/share.tsx';
import { SimpleTable } from '../../ui/simple-table.tsx';
import { Loading, Problem } from '../../ui/states.tsx';
import { Status } from '../../ui/status.tsx';
import { SetBudget, TopUp } from './change-budget.tsx';

const everyMs = 3_000;
const ends = { fail: 'fails runs', pause_for_approval: 'pauses runs', warn: 'only warns' } as const;

type Change = { readonly kind: 'top_up'; readonly budget: BudgetView } | { readonly kind: 'set' };

/** What the tenant and its batches may spend, have spent, and hold for calls under way. */
export function Budgets() {
  const { data, error, reload } = useQuery<{ readonly budgets: readonly BudgetView[] }>('/v1/budgets', everyMs);
  const [change, setChange] = useState<Change>();
  const close = () => setChange(undefined);
  return (
    <section class="card stack" aria-labelledby="budgets-title">
      <div class="row between">
        <h2 id="budgets-title">Budgets</h2>
        {may('approve') && (
          <button type="button" onClick={() => setChange({ kind: 'set' })}>
            Set the budget of a batch
          </button>
        )}
      </div>
      {data ? (
        <List budgets={data.budgets} onTopUp={(budget) => setChange({ kind: 'top_up', budget })} />
      ) : error ? (
        <Problem error={error} retry={reload} />
      ) : (
        <Loading />
      )}
      {change?.kind === 'set' && <SetBudget onDone={reload} onClose={close} />}
      {change?.kind === 'top_up' && <TopUp budget={change.budget} onDone={reload} onClose={close} />}
    </section>
  );
}

function List({ budgets, onTopUp }: { budgets: readonly BudgetView[]; onTopUp: (budget: BudgetView) => void }) {
  return (
    <SimpleTable
      label="Budgets"
      rows={budgets}
      keyOf={({ scope, id }) => `${scope}:${id}`}
      columns={[
        { label: 'Whose', cell: (budget) => <Owner budget={budget} /> },
        { label: 'Spent', align: 'end', cell: (budget) => <Spent budget={budget} /> },
        {
          label: 'Reserved',
          align: 'end',
          cell: ({ reservedMicrocents }) => <Money microcents={reservedMicrocents} />,
        },
        { label: 'Cap', cell: (budget) => <Cap budget={budget} /> },
        {
          label: 'Waiting',
          cell: ({ waiting }) =>
            waiting === 0 ? (
              <span class="soft">–</span>
            ) : (
              <Status status="waiting" tone="wait" label={`${formatCount(waiting)} for money`} />
            ),
        },
        {
          label: 'Change',
          cell: (budget) =>
            canTopUp(budget) ? (
              <button type="button" onClick={() => onTopUp(budget)}>
                Top up
                <span class="visually-hidden">
                  {' '}
                  {budget.scope} {budget.id}
                </span>
              </button>
            ) : (
              <span class="soft">–</span>
            ),
        },
      ]}
    />
  );
}

/** The money of a tenant is the operator's. Without a cap there is nothing to add to. */
function canTopUp({ scope, capMicrocents }: BudgetView): boolean {
  return capMicrocents !== undefined && may('approve') && (scope !== 'tenant' || may('admin'));
}

/** Where nothing caps an account, what is spent is counted with the costs only, which stand above. */
function Spent({ budget: { capMicrocents, spentMicrocents } }: { budget: BudgetView }) {
  if (capMicrocents === undefined && spentMicrocents === 0)
    return <span class="soft">see Spent above: there is no cap</span>;
  return <Money microcents={spentMicrocents} />;
}

function Owner({ budget: { scope, id, window, windowStart } }: { budget: BudgetView }) {
  const name = scope === 'run' ? <a href={`/runs/${id}`}>{id.slice(0, 13)}</a> : id;
  return (
    <>
      <span class="soft">{scope}</span> {name}
      {window !== 'total' && (
        <div class="soft">
          {window} {windowStart}, UTC
        </div>
      )}
    </>
  );
}

function Cap({ budget }: { budget: BudgetView }) {
  const { capMicrocents, spentMicrocents, reservedMicrocents, onExceed } = budget;
  if (capMicrocents === undefined) return <span class="soft">none</span>;
  return (
    <>
      <span class="number">{formatMoney(capMicrocents)}</span> <span class="soft">passing it {ends[onExceed]}</span>
      <Share used={spentMicrocents} held={reservedMicrocents} whole={capMicrocents} />
    </>
  );
}
