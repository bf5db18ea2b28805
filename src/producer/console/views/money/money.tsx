import { Budgets } from './budgets.tsx';
import { Costs } from './costs.tsx';

/** What was spent, and what may be. */
export function MoneyView() {
  return (
    <section class="stack" aria-labelledby="money-title">
      <h1 id="money-title">Money</h1>
      <Costs />
      <Budgets />
    </section>
  );
}
