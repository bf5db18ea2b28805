import { z } from 'zod';
import { jsonOr, jsonText } from '../../shared/base/json.ts';
import { agentView, type AgentView } from '../../shared/contract/agent/agent.ts';
import { agentSheet, type AgentDetail } from '../../shared/contract/agent/agent-detail.ts';
import { thereIsNo } from '../../shared/base/nearest.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';
import type { Keys } from '../../shared/state/keys.ts';

const announcedAgent = agentView.extend({ seenAt: z.string().optional() });

const maxAgeMs = 2_000;
const maxNamed = 50;

/** The agents that workers announced, cached shortly so that accepting a run costs no read of its own. */
export class AgentDirectory {
  readonly #keys: Keys;
  #known: ReadonlySet<string> = new Set();
  #readAt = Number.NEGATIVE_INFINITY;
  #models: readonly string[] = [];
  #modelsReadAt = Number.NEGATIVE_INFINITY;

  constructor(keys: Keys) {
    this.#keys = keys;
  }

  /**
   * Throws `validation` for an unannounced agent, named at `path` of the request, with those that are. While none is announced,
   * every name is accepted.
   */
  async check(id: string, redis: RedisConnection, path = 'agent'): Promise<void> {
    const isFresh = performance.now() - this.#readAt <= maxAgeMs;
    if (!(isFresh && this.#known.has(id))) await this.#read(redis);
    if (this.#known.size === 0 || this.#known.has(id)) return;
    const known = [...this.#known].sort();
    const named = known.slice(0, maxNamed);
    throw new RunError('validation', thereIsNo('agent', id, known), {
      details: [{ path, message: 'is not a known agent', known: named }],
    });
  }

  /** Throws `validation` where the announced agent has another version than the one that is asked for. */
  async checkVersion(id: string, wanted: string, redis: RedisConnection): Promise<void> {
    const announced = agentView.safeParse(jsonOr((await redis.hget(this.#keys.agents, id)) ?? 'null')).data;
    if (!announced || announced.version === wanted) return;
    const has = announced.version === undefined ? 'has no version' : `has version ${announced.version}`;
    throw new RunError('validation', `agentVersion: agent ${id} ${has}, not ${wanted}`, {
      details: [{ path: 'agentVersion', message: `is not the version of agent ${id}`, known: [announced.version] }],
    });
  }

  /** All of them, by id. Entries that a newer worker wrote in another form are left out. */
  async list(redis: RedisConnection): Promise<readonly AgentView[]> {
    const entries = await redis.hvals(this.#keys.agents);
    const agents = entries.map((json) => agentView.safeParse(jsonOr(json)).data).filter((agent) => agent !== undefined);
    return agents.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** One with what workers have announced of its definition. Throws `not_found`. */
  async read(id: string, redis: RedisConnection): Promise<AgentDetail> {
    const [announced, sheet] = await Promise.all([
      redis.hget(this.#keys.agents, id),
      redis.hget(this.#keys.agentSheets, id),
    ]);
    const { data: agent } = announcedAgent.safeParse(jsonOr(announced ?? 'null'));
    if (agent) return { ...agent, ...agentSheet.safeParse(jsonOr(sheet ?? 'null')).data };
    const known = (await redis.hkeys(this.#keys.agents)).sort();
    throw new RunError('not_found', thereIsNo('agent', id, known));
  }

  /** The models that they use, cached shortly. */
  async models(redis: RedisConnection): Promise<readonly string[]> {
    if (performance.now() - this.#modelsReadAt > maxAgeMs) {
      const agents = await this.list(redis);
      this.#models = [...new Set(agents.flatMap(({ model, models = [] }) => [model, ...models]))].sort();
      this.#modelsReadAt = performance.now();
    }
    return this.#models;
  }

  async register(agents: readonly AgentView[], redis: RedisConnection): Promise<void> {
    if (agents.length === 0) return;
    const seenAt = new Date().toISOString();
    const entries = agents.map((agent) => [agent.id, jsonText({ ...agent, seenAt })]);
    await redis.hset(this.#keys.agents, Object.fromEntries(entries));
    this.#readAt = Number.NEGATIVE_INFINITY;
    this.#modelsReadAt = Number.NEGATIVE_INFINITY;
  }

  /** For agents that are no longer served anywhere. */
  async forget(ids: readonly string[], redis: RedisConnection): Promise<void> {
    if (ids.length > 0) {
      await redis.hdel(this.#keys.agents, ...ids);
      await redis.hdel(this.#keys.agentSheets, ...ids);
    }
    this.#readAt = Number.NEGATIVE_INFINITY;
    this.#modelsReadAt = Number.NEGATIVE_INFINITY;
  }

  async #read(redis: RedisConnection): Promise<void> {
    this.#known = new Set(await redis.hkeys(this.#keys.agents));
    this.#readAt = performance.now();
  }
}
