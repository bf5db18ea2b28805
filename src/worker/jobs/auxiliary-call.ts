import type { Log } from '../../shared/base/log.ts';
import { RunError } from '../../shared/base/errors.ts';
import { newNonce } from '../../shared/base/ids.ts';
import { textOf } from '../../shared/contract/message.ts';
import { LlmError, runErrorFrom } from '../llm/errors.ts';
import type { Accounts } from '../../shared/state/money/accounts.ts';
import { TurnSuspension } from '../turn/turn-ports.ts';
import { AttemptGate } from '../admission/attempt-gate.ts';
import { unknownAgent } from '../agents/known-names.ts';
import type { RunDeps } from '../run/run-context.ts';
import { paymentBy, writeOff } from '../run/payment.ts';

export type AuxiliaryCallDeps = Pick<
  RunDeps,
  'ports' | 'agents' | 'chainFor' | 'preferencesFor' | 'maxInlineWaitMs' | 'tenants' | 'metrics' | 'wake'
>;

/** A model call that is no step. It passes the same gate, and its accounts pay. */
export interface AuxiliaryCall {
  readonly accounts: Omit<Accounts, 'run' | 'payers'>;
  /** Whose models and breakers it uses. */
  readonly agentId: string;
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
  const { agentId } = call;
  const agent = deps.agents.get(agentId);
  if (!agent) throw unknownAgent(agentId);
  const { model } = agent.definition;
  const chain = deps.chainFor(agent, model, {}, logOf(call, deps));
  if (!chain) throw new RunError('internal', `no provider serves model ${model}`);
  const { fast } = deps.preferencesFor(agent).tiers;
  const gate = await gateFor(call, deps);
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

/** The gate that the call must pass before each attempt. */
export async function gateFor(call: AuxiliaryCall, deps: AuxiliaryCallDeps): Promise<AttemptGate> {
  const { accounts, agentId, isRepeat } = call;
  if (isRepeat) await writeOff(accounts, deps);
  return new AttemptGate({
    ...paymentBy(accounts, newNonce(), logOf(call, deps), deps),
    ports: deps.ports,
    weight: deps.tenants.of(accounts.tenant).weight,
    breaker: deps.agents.get(agentId)?.definition.breaker ?? { failureThreshold: 5, cooldownMs: 30_000 },
    approved: () => false,
  });
}

export function failureOf(thrown: unknown): unknown {
  if (thrown instanceof LlmError) return runErrorFrom(thrown);
  // There is no run to suspend: the job is tried again later.
  if (thrown instanceof TurnSuspension) return new RunError('provider_rate_limit', thrown.message, { cause: thrown });
  return thrown;
}

function logOf({ agentId: agent, accounts: { runId, tenant } }: AuxiliaryCall, { ports }: AuxiliaryCallDeps): Log {
  return ports.log.child({ runId, agent, tenant });
}
