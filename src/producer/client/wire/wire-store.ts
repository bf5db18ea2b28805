import { RunError } from '../../../shared/base/errors.ts';
import type { RunRecord } from '../../../shared/contract/run.ts';
import type { HistoryMessage } from '../../../shared/contract/request/history.ts';
import type { StoredConversation } from '../../../shared/state/wire/conversations.ts';
import {
  readConversation,
  removeConversation,
  returnItems,
  takeItems,
  writeConversation,
} from '../../../shared/state/wire/conversations.ts';
import { forgetRun } from '../../../shared/state/wire/forget-run.ts';
import { executionIdOf } from '../../../shared/state/wire/repeats.ts';
import { reach, type Reached, type TenantClient } from '../client-core.ts';
import { checkRunId } from '../accept/validate.ts';
import { loadLegible } from '../read-run.ts';

/**
 * What the routes of OpenAI's API keep for a tenant beside its runs and threads. Only a process beside Redis has it: everybody
 * else uses those routes.
 */
export class WireStore {
  readonly #client: TenantClient;

  constructor(client: TenantClient) {
    this.#client = client;
  }

  /** {@link executionIdOf}. */
  async executionIdOf(digest: string, isRepeat: boolean): Promise<string> {
    return await this.#reach((at) => executionIdOf(spaceOf(at), at.tenant, { digest, isRepeat }));
  }

  /** A run with all that was asked for; after `RESULT_TTL_S` as the archive has it. Throws `run_not_found`, `invalid_id`. */
  async record(runId: string): Promise<RunRecord> {
    const id = checkRunId(runId);
    return await this.#reach(async (at) => await this.#load(id, at));
  }

  /** {@link forgetRun}, in the archive too. Throws `run_not_found`, `concurrent_run`. */
  async forget(runId: string): Promise<void> {
    const id = checkRunId(runId);
    await this.#reach(async (at) => {
      const record = await this.#load(id, at);
      await forgetRun(spaceOf(at), { runId: id, tenant: at.tenant });
      await at.core.archive.drop(at.tenant, record);
    });
  }

  async #load(runId: string, at: Reached): Promise<RunRecord> {
    try {
      return await loadLegible(runId, at);
    } catch (error) {
      if (!(error instanceof RunError && error.code === 'run_not_found')) throw error;
      const archived = await at.core.archive.read(at.tenant, runId);
      if (!archived) throw error;
      return archived.record;
    }
  }

  async writeConversation(id: string, conversation: StoredConversation): Promise<void> {
    await this.#reach((at) => writeConversation(spaceOf(at), id, conversation));
  }

  async readConversation(id: string): Promise<StoredConversation | undefined> {
    return await this.#reach((at) => readConversation(spaceOf(at), id));
  }

  /** {@link takeItems}. */
  async takeItems(id: string, executionId: string): Promise<readonly HistoryMessage[]> {
    return await this.#reach((at) => takeItems(spaceOf(at), id, executionId));
  }

  async returnItems(id: string, executionId: string): Promise<void> {
    await this.#reach((at) => returnItems(spaceOf(at), id, executionId));
  }

  /** Answers whether there was one. */
  async removeConversation(id: string): Promise<boolean> {
    return await this.#reach((at) => removeConversation(spaceOf(at), id));
  }

  async #reach<T>(work: (at: Reached) => Promise<T>): Promise<T> {
    return await reach(this.#client, work);
  }
}

function spaceOf({ core, redis, tenant }: Reached) {
  return { redis, keys: core.keys, tenant };
}
