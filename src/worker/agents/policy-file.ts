import { z } from 'zod';
import { policyRule, type PolicyRule } from '../../shared/contract/agent/policy.ts';
import { readYamlFile } from '../../shared/base/yaml-file.ts';
import type { HardRules } from '../guards/hard-rules.ts';
import { createPolicy, type Policy } from '../guards/policy.ts';

const rules = z
  .array(policyRule)
  .max(2_000)
  .superRefine((all, context) => {
    for (const [index, { ruleId }] of all.entries()) {
      if (all.findIndex((rule) => rule.ruleId === ruleId) === index) continue;
      context.addIssue({ code: 'custom', path: [index, 'ruleId'], message: `${ruleId} is there twice` });
    }
  });

const maxHosts = 10_000;

/** A host as URLs write it, or undefined when the text is anything else than a host. */
function hostIn(text: string): string | undefined {
  const url = `https://${text}/`;
  if (/[/@?#\\\s*]/.test(text) || !URL.canParse(url)) return undefined;
  const { hostname, host, port } = new URL(url);
  // The port of https is not written down by URLs, and an entry may name it all the same.
  return port === '' && text.endsWith(':443') ? `${host}:443` : (port && host) || hostname;
}

function hostList(message: string, read: (text: string) => string | undefined) {
  const host = z.string().transform((text, context) => {
    const found = read(text);
    if (found === undefined) context.addIssue({ code: 'custom', message });
    return found ?? z.NEVER;
  });
  return z.array(host).max(maxHosts);
}

const policyFile = z.strictObject({
  rules: rules.default([]),
  /** Commands that tools may start, each in full. None: no tool may start any. */
  commands: z.array(z.string().min(1).max(1_000)).max(maxHosts).default([]),
  /** The only hosts that tools may contact. Absent: every public one. */
  domains: hostList('must be the full name of a host, without a port, a path or a wildcard', (text) => {
    const host = hostIn(text);
    return host?.includes('.') && !/:\d+$/.test(host) ? host.replace(/\.$/, '') : undefined;
  }).optional(),
  /** `host` or `host:port` that tools may contact without TLS. */
  allowInsecure: hostList('must be host or host:port', hostIn).default([]),
});

/** The operator's rules. */
export type PolicyFile = z.output<typeof policyFile>;

/**
 * Reads `MILLRACE_POLICIES`; without a path there are no rules, no command is allowed, and any public host is. Throws
 * `invalid_config` whose details list every problem.
 */
export function loadPolicyFile(path: string | undefined): PolicyFile {
  return path === undefined ? policyFile.parse({}) : readYamlFile(path, policyFile);
}

/** What holds for one agent: of equal priority the operator's rules stand before the agent's own. */
export function policyFor(
  { rules: operators, commands, domains, allowInsecure }: PolicyFile,
  agentPolicies: readonly PolicyRule[],
  isPrivateHost: HardRules['isPrivateHost'],
): Policy {
  const hard: HardRules = { commands, allowInsecure, isPrivateHost, domains };
  return createPolicy(operators, hard, agentPolicies);
}

/**
 * What is odd about rules and yet no error: an id of the file again at an agent, so that events do not say which of the two
 * decided, and names of tools that no agent has. A name is not looked up where `known` cannot hold all of them.
 */
export function policyWarnings(
  file: PolicyFile,
  agentPolicies: readonly PolicyRule[],
  known: { readonly tools: ReadonlySet<string>; readonly isComplete: boolean },
): string[] {
  const ids = new Set(file.rules.map(({ ruleId }) => ruleId));
  const doubled = agentPolicies.filter(({ ruleId }) => ids.has(ruleId));
  const unknown = [...file.rules, ...agentPolicies].filter(
    ({ condition: { toolName } }) => known.isComplete && toolName !== undefined && !known.tools.has(toolName),
  );
  return [
    ...doubled.map(({ ruleId }) => `rule ${ruleId}: the policy file has a rule of this id, too`),
    ...unknown.map(({ ruleId, condition }) => `rule ${ruleId}: there is no tool ${condition.toolName}`),
  ];
}
