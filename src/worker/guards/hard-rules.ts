import { hostOf, isNamed, portOf } from '../../shared/egress/networks.ts';

/** What a call would touch, for the operator's hard rules. */
export interface ToolFacts {
  /** A command that is started, exactly as the allow-list would name it. */
  readonly command?: string;
  /** Addresses that are contacted. */
  readonly urls?: readonly string[];
  /** It cannot be taken back: it needs an approval. */
  readonly commits?: boolean;
}

/** Rules that no other rule can lift. */
export interface HardRules {
  /** Commands that tools may start, each in full. None: no tool may start any. */
  readonly commands: readonly string[];
  /** The only hosts that tools may contact, by full name. Absent: every public one. */
  readonly domains?: readonly string[] | undefined;
  /** `host` or `host:port` that may be contacted without TLS. */
  readonly allowInsecure: readonly string[];
  /** Is this an address that no public host has: private, loopback, link-local? IPv6 comes without brackets. */
  readonly isPrivateHost: (host: string) => boolean;
}

/** Why a hard rule stands against a call, and the text about it for people. */
export const hardText = {
  not_granted: 'an agent in a sandbox starts no process and contacts no other host',
  command_not_allowed: 'the command is not on the list of allowed commands',
  domain_not_allowed: 'the host is private, or not on the list of allowed domains',
  insecure_url: 'the address is not https',
  gate_required: 'the call cannot be taken back: a person has to approve it',
} as const;
export type HardReason = keyof typeof hardText;

/** The first objection of the hard rules other than the approval that a commit needs, or undefined. Never throws. */
export function hardReason(
  { command, urls = [] }: ToolFacts,
  rules: HardRules,
): Exclude<HardReason, 'gate_required' | 'not_granted'> | undefined {
  if (command !== undefined && !rules.commands.includes(command)) return 'command_not_allowed';
  return urls.map((url) => urlReason(url, rules)).find((reason) => reason !== undefined);
}

function urlReason(text: string, rules: HardRules): 'domain_not_allowed' | 'insecure_url' | undefined {
  if (!URL.canParse(text)) return 'insecure_url';
  const url = new URL(text);
  const isHttp = url.protocol === 'http:';
  if (!isHttp && url.protocol !== 'https:') return 'insecure_url';
  const host = hostOf(url.hostname);
  if (rules.isPrivateHost(host)) return 'domain_not_allowed';
  if (rules.domains && !rules.domains.some((domain) => hostOf(domain) === host)) return 'domain_not_allowed';
  return isHttp && !isNamed(host, portOf(url), rules.allowInsecure) ? 'insecure_url' : undefined;
}
