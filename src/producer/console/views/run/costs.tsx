import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import { formatCount, Money } from '../../ui/money.tsx';
import { costByModel, costByStep, type CostRow } from './record/costs.ts';

/** What a run cost, by step and by model. */
export function Costs({ steps }: { steps: RunSteps }) {
  const byModel = costByModel(steps);
  if (byModel.length === 0 && steps.children.length === 0) return <p class="soft">No model was asked yet.</p>;
  return (
    <div class="stack">
      <CostTable title="By model" first="Model" second="Provider" rows={byModel} />
      <CostTable title="By step" first="Step" second="Models" rows={costByStep(steps)} />
    </div>
  );
}

interface CostTableProps {
  readonly title: string;
  readonly first: string;
  readonly second: string;
  readonly rows: readonly CostRow[];
}

function CostTable({ title, first, second, rows }: CostTableProps) {
  const sum = rows.reduce((all, { costMicrocents }) => all + costMicrocents, 0);
  return (
    <section class="stack-small">
      <h2>{title}</h2>
      <div class="scrolls" role="region" aria-label={title} tabIndex={0}>
        <table class="simple">
          <thead>
            <tr>
              <th scope="col">{first}</th>
              <th scope="col">{second}</th>
              {['Model calls', 'Tokens in', 'Tokens cached', 'Tokens out', 'Cost', 'Share'].map((name) => (
                <th key={name} scope="col" class="end">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ key, label, model, attempts, usage, costMicrocents, share }) => (
              <tr key={key}>
                <td>{label}</td>
                <td class="soft">{model}</td>
                <td class="end number">{attempts || ''}</td>
                <td class="end number">{formatCount(usage.input + usage.cacheWrite)}</td>
                <td class="end number">{formatCount(usage.cached)}</td>
                <td class="end number">{formatCount(usage.output)}</td>
                <td class="end">
                  <Money microcents={costMicrocents} />
                </td>
                <td class="end number share">
                  <span class="share-bar" aria-hidden="true" style={{ '--size': share }} />
                  {Math.round(share * 100)} %
                </td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row" colSpan={6}>
                Total
              </th>
              <td class="end">
                <Money microcents={sum} />
              </td>
              <td />
            </tr>
          </tfoot>
        </table>
      </div>
    </section>
  );
}
