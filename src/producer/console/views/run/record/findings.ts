import type { RunSteps } from '../../../../../shared/contract/archive/run-steps.ts';
import type { RunEvent } from '../../../../../shared/contract/event.ts';
import type { FlowFinding } from '../../../../../shared/contract/flow.ts';
import { allCalls, anchorOfCall } from './waterfall.ts';

/** Something that a policy, a guard or a person said about a run. */
export interface Finding {
  readonly at: string;
  readonly kind: 'policy' | 'flow' | 'loop' | 'leak' | 'money' | 'tools' | 'outcome';
  readonly action: string;
  /** Was something stopped? */
  readonly isStop: boolean;
  readonly about: string;
  readonly text: string;
  readonly by: string;
  readonly anchor: string | undefined;
}

/** All findings, oldest first: those about calls and model calls from the steps, the others from the events. */
export function findingsOf(steps: RunSteps, events: readonly RunEvent[]): readonly Finding[] {
  const made = steps.steps.flatMap((step) =>
    allCalls([step]).map((call) => ({ ...call, stepNumber: step.stepNumber })),
  );
  const calls = made.flatMap(({ stepNumber, toolCallId, toolName, policy, flow }) => {
    const anchor = anchorOfCall(steps.runId, stepNumber, toolCallId);
    return [
      ...policy.map((each) => ({ ...policyFinding(each, toolName), anchor })),
      ...flow.map(({ at, decision, mode, findings, by = '' }) => ({
        at,
        kind: 'flow' as const,
        action: `${decision} (${mode})`,
        isStop: decision === 'blocked',
        about: toolName,
        text: findings.map(flowText).join('; '),
        by,
        anchor,
      })),
    ];
  });
  const modelCalls = steps.policy.map((each) => ({
    ...policyFinding(each, each.stepNumber ? `the model call of step ${each.stepNumber}` : 'a model call'),
    anchor: undefined,
  }));
  const ofEvents = events.flatMap((event) => lostOutcome(event, steps) ?? findingIn(event) ?? []);
  return [...calls, ...modelCalls, ...ofEvents].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

/** A call that may or may not have taken effect. Its event names no step. */
function lostOutcome(event: RunEvent, { runId, steps }: RunSteps): Finding | undefined {
  if (event.type !== 'tool.outcome_unknown') return undefined;
  const { timestamp: at, toolCallId, toolName: about } = event;
  const isIt = (step: RunSteps['steps'][number]) => allCalls([step]).some((call) => call.toolCallId === toolCallId);
  const step = steps.findLast((one) => (one.startedAt ?? '') <= at && isIt(one));
  const anchor = step && anchorOfCall(runId, step.stepNumber, toolCallId);
  const text = 'it may have taken effect, and was not made again by itself';
  return { at, kind: 'outcome', action: 'outcome unknown', isStop: true, about, text, by: '', anchor };
}

type PolicyWords = RunSteps['policy'][number];

function policyFinding({ at, action, ruleId, reason, subagentName }: PolicyWords, about: string) {
  return {
    at,
    kind: 'policy' as const,
    action,
    isStop: stops.has(action),
    about: subagentName ? `the agent ${subagentName}` : about,
    text: [reason, ruleId && `rule ${ruleId}`].filter(Boolean).join(' · '),
    by: '',
  };
}

const stops: ReadonlySet<string> = new Set(['deny', 'blocked', 'refuse', 'fail']);

/** What the data-flow policy found, in words. */
export function flowText({ rule, argument, source }: FlowFinding): string {
  const where = argument === undefined ? '' : ` in ${argument}`;
  return `${flowRules[rule] ?? rule}${where}${source ? `, from ${source.name}` : ''}`;
}

const flowRules: Readonly<Record<string, string>> = {
  'untrusted-to-sink': 'a passage of an untrusted text',
  'untrusted-value': 'a value that an untrusted text brought',
  'argument-origin': 'a value that does not come from where its rule says',
  'after-untrusted': 'a call that is not allowed once an untrusted text was read',
  'lethal-trifecta': 'untrusted text and secret data in one run',
};

function findingIn(event: RunEvent): Finding | undefined {
  const { timestamp: at } = event;
  switch (event.type) {
    case 'agent.loop.detected': {
      const { pattern, action, toolNames, count, stepNumber } = event;
      const text = [`${pattern}, ${count === 1 ? 'once' : `${count} times`}`, toolNames.join(', ')];
      return said({ at, kind: 'loop', action, about: `step ${stepNumber}`, text: text.filter(Boolean).join(' · ') });
    }
    case 'agent.lateral-leak.detected': {
      const { vector, severity, decision } = event;
      return said({
        at,
        kind: 'leak',
        action: decision,
        about: leakVectors[vector] ?? vector,
        text: `${severity} severity`,
      });
    }
    case 'budget.warning':
      return said({ at, kind: 'money', action: 'warned', about: 'the cap', text: 'the next model call may pass it' });
    case 'budget.paused': {
      const about = `the cap of ${event.scope} ${event.accountId}`;
      return said({ at, kind: 'money', action: 'paused', about, text: 'the next model call could pass it' });
    }
    case 'mcp.tools_changed': {
      const text = event.tools.map(({ tool, isNew }) => `${tool} ${isNew ? 'is new' : 'changed'}`).join(', ');
      return said({ at, kind: 'tools', action: event.pin, about: `the server ${event.server}`, text });
    }
    case 'mcp.tool_accepted': {
      const { server, tool, by = '' } = event;
      return said({ at, kind: 'tools', action: 'accepted', about: tool, text: `of the server ${server}`, by });
    }
    default:
      return undefined;
  }
}

const leakVectors: Readonly<Record<string, string>> = {
  'child-input': 'what an agent asks another one',
  'child-answer': 'the answer of another agent',
  handoff: 'the conversation that was handed over',
  merge: 'what was made of several answers',
  protocol: 'a result of a tool, or an answer of a model',
};

function said(some: Pick<Finding, 'at' | 'kind' | 'action' | 'about' | 'text'> & { readonly by?: string }): Finding {
  return { by: '', anchor: undefined, ...some, isStop: stops.has(some.action) };
}
