import { unlessAborted } from '../../shared/base/deadline.ts';
import type { Log } from '../../shared/base/log.ts';
import { RunError } from '../../shared/base/errors.ts';
import { newNonce } from '../../shared/base/ids.ts';
import { textOf } from '../../shared/contract/message.ts';
import { zeroUsage } from '../../shared/contract/money.ts';
import { asLlmError } from '../llm/candidate.ts';
import { costOf, promptTokensOf } from '../llm/cost.ts';
import { LlmError, runErrorFrom } from '../llm/errors.ts';
import type { LlmRequest } from '../llm/provider.ts';
import type { Embedder } from './embedder.ts';
import type { Accounts } from '../../shared/state/money/accounts.ts';
import { TurnSuspension } from '../turn/contract.ts';
import { AttemptGate } from '../admission/attempt-gate.ts';
import { unknownAgent } from '../agents/known-names.ts';
import type { RunDeps } from '../run/open-run.ts';

export type AuxiliaryCallDeps = Pick<
  RunDeps,
  'ports' | 'agents' | 'chainFor' | 'preferencesFor' | 'maxInlineWaitMs' | 'tenants' | 'metrics' | 'wake'
>;

/** A model call that is no step. It passes the same gate, and its accounts pay. */
export interface AuxiliaryCall {
  readonly accounts: Omit<Accounts, 'run' | 'payers'>;
  /** The same for each repetition of the call. */
  readonly requestId: string;
  /** A lost worker may have begun this call: its reservations are written off. */
  readonly isRepeat: boolean;
}

/**
 * Asks the agent's fast model, or its own where it maps none, and returns the text. Throws `RunError`: also
 * `provider_rate_limit` where it would have to wait long, and `budget_exceeded` where there is no money for it.
 */
export async function askModel(
  call: AuxiliaryCall,
  prompt: { readonly system: string; readonly user: string; readonly maxOutputTokens: number },
  deps: AuxiliaryCallDeps,
  signal: AbortSignal,
): Promise<string> {
  const { agentId } = call.accounts;
  const agent = deps.agents.get(agentId);
  if (!agent) throw unknownAgent(agentId);
  const { model } = agent.definition;
  const log = logOf(call, deps);
  const chain = deps.chainFor(agent, model, {}, log);
  if (!chain) throw new RunError('internal', `no provider serves model ${model}`);
  const { fast } = deps.preferencesFor(agent).tiers;
  const gate = await gateFor(call, deps, log);
  const { system, user, maxOutputTokens } = prompt;
  const { requestId } = call;
  try {
    const { answer } = await chain.run(
      {
        requestId,
        idempotencyKey: requestId,
        messages: [
          { role: 'system', content: system },
          { role: 'user', content: user },
        ],
        maxOutputTokens,
      },
      {
        step: 1,
        firstAttemptNumber: 1,
        primary: fast,
        only: fast !== undefined,
        onPart() {},
        onAttempt() {},
        admit: async (planned, stop) => await gate.admit({ ...planned, optional: true }, stop),
      },
      signal,
    );
    return textOf(answer.message);
  } catch (thrown) {
    throw failureOf(thrown);
  }
}

/** Has the embedder make vectors of texts, one for each. Throws as `askModel` does. */
export async function embedTexts(
  call: AuxiliaryCall,
  texts: readonly string[],
  embedder: Embedder,
  deps: AuxiliaryCallDeps,
  signal: AbortSignal,
): Promise<readonly (readonly number[])[]> {
  const { id, model, limits, microcentsPerMillionTokens: rate } = embedder;
  const price = rate === undefined ? undefined : { input: rate, output: 0, cached: 0, cacheWrite: 0 };
  const request: LlmRequest = {
    model,
    requestId: call.requestId,
    idempotencyKey: call.requestId,
    messages: texts.map((content) => ({ role: 'user', content })),
    maxOutputTokens: 0,
  };
  const gate = await gateFor(call, deps, logOf(call, deps));
  const provider = { id, limitsOf: () => limits };
  const priced = price !== undefined;
  try {
    const permit = await gate.admit({ step: 1, provider, attemptNumber: 1, price, request, optional: true }, signal);
    if (permit.kind === 'skip') throw new LlmError('overloaded', id, `embedder ${id} is not called for now`);
    try {
      const { vectors, inputTokens: input = promptTokensOf(request) } = await inTime(embedder, texts, signal);
      const usage = { ...zeroUsage, input, total: input };
      await permit.settle({ usage, costMicrocents: price ? costOf(usage, price) : 0, priced, rateLimit: undefined });
      if (vectors.length === texts.length) return vectors;
    } catch (thrown) {
      const error = asLlmError(thrown, id, signal);
      await permit.settle({ usage: undefined, costMicrocents: 0, priced, rateLimit: undefined, error });
      throw error;
    }
    throw new RunError('provider_unavailable', `embedder ${id} did not answer one vector for each text`);
  } catch (thrown) {
    throw failureOf(thrown);
  }
}

/** An embedder is code of the operator's, and may not listen to the signal. */
async function inTime(embedder: Embedder, texts: readonly string[], signal: AbortSignal) {
  signal.throwIfAborted();
  return await unlessAborted(embedder.embed(texts, signal), signal);
}

async function gateFor({ accounts, isRepeat }: AuxiliaryCall, deps: AuxiliaryCallDeps, log: Log): Promise<AttemptGate> {
  const { ports, maxInlineWaitMs, tenants, metrics, agents, wake } = deps;
  const { weight, budget } = tenants.of(accounts.tenant);
  const wakeAll = (runIds: readonly string[]) => {
    for (const id of runIds) wake(id, 'there is money for it now');
  };
  if (isRepeat && ports.ledger.isCapped(accounts)) wakeAll(await ports.ledger.writeOff(accounts));
  return new AttemptGate({
    ports,
    clock: ports.clock,
    log,
    accounts,
    owner: newNonce(),
    weight,
    breaker: agents.get(accounts.agentId)?.definition.breaker ?? { failureThreshold: 5, cooldownMs: 30_000 },
    maxInlineWaitMs,
    denyUnpriced: budget?.unpriced === 'deny',
    modelName: metrics?.modelName,
    meter: metrics?.money,
    approved: () => false,
    emit: () => {},
    wake: wakeAll,
  });
}

function failureOf(thrown: unknown): unknown {
  if (thrown instanceof LlmError) return runErrorFrom(thrown);
  // There is no run to suspend: the job is tried again later.
  if (thrown instanceof TurnSuspension) return new RunError('provider_rate_limit', thrown.message, { cause: thrown });
  return thrown;
}

function logOf({ accounts: { runId, agentId: agent, tenant } }: AuxiliaryCall, { ports }: AuxiliaryCallDeps): Log {
  return ports.log.child({ runId, agent, tenant });
}
