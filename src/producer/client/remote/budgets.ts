import type { BudgetScope, BudgetView } from '../../../shared/contract/money.ts';
import type { BudgetSettings, Budgets, TopUpOptions, TopUpRequest } from '../budgets.ts';
import { newKey } from './accept.ts';
import { at, type Link } from './link.ts';

/** The budgets over HTTP. */
export class RemoteBudgets implements Budgets {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  async list(): Promise<readonly BudgetView[]> {
    return (await this.#link.json<{ readonly budgets: readonly BudgetView[] }>({ path: '/v1/budgets' })).budgets;
  }

  async get(scope: BudgetScope, id: string): Promise<BudgetView> {
    return await this.#link.json({ path: at`/v1/budgets/${scope}/${id}` });
  }

  async set(scope: 'batch', id: string, settings: BudgetSettings): Promise<BudgetView> {
    const path = at`/v1/budgets/${scope}/${id}`;
    return await this.#link.json({ method: 'PUT', path, body: { json: settings }, isRepeatable: true });
  }

  /** With a key of its own where none is given: a request that is sent again adds nothing. */
  async topUp(
    scope: BudgetScope,
    id: string,
    request: TopUpRequest,
    { idempotencyKey = newKey() }: TopUpOptions = {},
  ): Promise<BudgetView> {
    return await this.#link.json({
      method: 'POST',
      path: at`/v1/budgets/${scope}/${id}/top-ups`,
      body: { json: request },
      headers: { 'idempotency-key': idempotencyKey },
      isRepeatable: true,
    });
  }
}
