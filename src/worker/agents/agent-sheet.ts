import type { AgentSheet, ToolDetail } from '../../shared/contract/agent/agent-detail.ts';
import { defined } from '../../shared/base/collections.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import { configuredTools } from '../tools/configure.ts';
import type { Tool } from '../tools/tool.ts';
import { isAgent } from './define-agent.ts';
import type { LoadedAgent } from './loaded-agent.ts';

/** What is announced of an agent for people to read. References to secrets stay references; a secret in a text is masked. */
export function agentSheetOf({ definition, tools }: LoadedAgent, redactor: Redactor): AgentSheet {
  const sheet = {
    definition: { ...definition },
    toolDetails: configuredTools(tools, definition.toolOptions, definition.toolCollisions).map(detailOf),
  };
  return redactor.value(sheet) as AgentSheet;
}

function detailOf(tool: Tool): ToolDetail {
  const { name, description, parameters, effect, trust, sensitivity, sideEffectClass, inboundSanitization } = tool;
  const { timeoutMs, maxResultTokens, truncationStrategy, executionMode, deferLoading: deferred, carries } = tool;
  return defined({
    name,
    description,
    parameters,
    effect,
    trust,
    sensitivity,
    approval: approvalOf(tool),
    sideEffectClass,
    inboundSanitization,
    timeoutMs,
    maxResultTokens,
    truncationStrategy,
    executionMode,
    deferred,
    agent: tool.handoff ?? (isAgent(carries) ? carries.definition.id : undefined),
  });
}

function approvalOf({ needsApproval }: Tool): ToolDetail['approval'] {
  if (typeof needsApproval === 'function') return 'depends';
  return needsApproval ? 'always' : 'never';
}
