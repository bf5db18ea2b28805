import type { AuditEntry } from '../../../../shared/contract/audit.ts';
import { countOf } from '../../ui/count-of.ts';

/** What an entry says in one line. It names things; what users and models wrote is not in it. */
export function wordsOf(entry: AuditEntry, money: (microcents: number) => string): string {
  switch (entry.kind) {
    case 'decision':
      return decisionWords(entry);
    case 'budget':
      return entry.change === 'set'
        ? `${entry.scope} ${entry.accountId} may spend ${money(entry.microcents)}`
        : `${entry.scope} ${entry.accountId} was topped up with ${money(entry.microcents)}`;
    case 'erasure':
      return `${countOf(entry.runs, 'run')} and ${countOf(entry.threads, 'thread')} erased, receipt ${entry.receiptId}`;
    case 'keys':
      return `${entry.key} ${entry.change}${entry.scopes ? ` (${entry.scopes.join(', ')})` : ''}`;
    case 'pause':
      return `batch ${entry.batchId} ${entry.change}`;
    case 'denial':
      return `${entry.subject.replaceAll('_', ' ')} denied${named(entry.toolName ?? entry.subagentName)}${
        entry.ruleId === undefined ? '' : ` by rule ${entry.ruleId}`
      }`;
    case 'flow':
      return `data flow ${entry.decision.replaceAll('_', ' ')}${named(entry.toolName)}`;
    case 'leak':
      return 'found in what one agent handed to another';
    default:
      return unknownWords(entry);
  }
}

function decisionWords({ verdict, toolName, edited }: Extract<AuditEntry, { kind: 'decision' }>): string {
  return `${verdict}${named(toolName)}${edited ? ', with other arguments' : ''}`;
}

function named(name: string | undefined): string {
  return name === undefined ? '' : ` ${name}`;
}

/** A later producer knows kinds that this page does not. */
function unknownWords(entry: never): string {
  const { kind } = entry as { readonly kind: string };
  return kind;
}
