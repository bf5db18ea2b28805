import { Redactor } from '../../../shared/base/redact.ts';
import { clip } from '../../../shared/base/text.ts';
import type { ToolEffect } from '../../../shared/contract/agent/agent.ts';
import { maxFlowFindings, type DataFlowPolicy, type ShownFlow } from '../../../shared/contract/flow.ts';
import type { FlowMemory } from './memory.ts';
import { normalise } from './normalise.ts';

/** A call that is about to be made. */
export interface JudgedCall {
  readonly toolName: string;
  /** Every name by which rules mean the tool, `mcp:<server>/<tool>` too. */
  readonly names: readonly string[];
  readonly args: unknown;
  /** Its JSON Schema. */
  readonly parameters: Record<string, unknown>;
  readonly effect: ToolEffect;
}

const maxShownChars = 200;
const maxDepth = 64;
const redactor = new Redactor();

/** What stands against the call, the most specific first. Empty: nothing. Never throws. */
export function judgeFlow(call: JudgedCall, memory: FlowMemory, policy: DataFlowPolicy): readonly ShownFlow[] {
  if (policy.mode === 'off') return [];
  const own = [call.toolName, ...call.names].map((name) => ownField(policy.tools, name)).find((one) => one);
  if (!(own?.sink ?? call.effect !== 'read')) return [];
  const { sources, sensitivity } = memory.seen;
  const [source] = sources;
  if (!source) return [];
  const findings: ShownFlow[] = leavesOf(call.args, '', 0).flatMap((leaf) => judgeLeaf(leaf, memory, policy));
  if (own?.afterUntrusted === false) findings.push({ rule: 'after-untrusted', source });
  if (policy.guardTrifecta && sensitivity === 'secret') findings.push({ rule: 'lethal-trifecta', source });
  return findings.slice(0, maxFlowFindings);
}

function ownField<T>(fields: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

interface Leaf {
  readonly path: string;
  readonly value: string;
}

function leavesOf(value: unknown, path: string, depth: number): Leaf[] {
  if (typeof value === 'string' || typeof value === 'number') return [{ path, value: String(value) }];
  if (value === null || typeof value !== 'object' || depth > maxDepth) return [];
  return Object.entries(value).flatMap(([name, item]) =>
    leavesOf(item, path === '' ? name : `${path}.${name}`, depth + 1),
  );
}

function judgeLeaf({ path, value }: Leaf, memory: FlowMemory, policy: DataFlowPolicy): ShownFlow[] {
  const text = normalise(value);
  const about = { argument: clip(path, 256), value: clip(redactor.text(value), maxShownChars) };
  for (const { text: untrusted, source } of memory.untrusted) {
    const brought = normalise(untrusted);
    for (let at = 0; at + policy.minSpanChars <= text.length; at++) {
      const span = text.slice(at, at + policy.minSpanChars);
      if (!brought.includes(span)) continue;
      if (memory.trusted.some((one) => normalise(one.text).includes(span))) continue;
      return [{ rule: 'untrusted-to-sink', ...about, source }];
    }
    if (!policy.trackValues || text.length < 4 || !/[\d@/:._#+]/.test(value) || !brought.includes(text)) continue;
    if (memory.trusted.some((one) => normalise(one.text).includes(text))) continue;
    return [{ rule: 'untrusted-value', ...about, source }];
  }
  return [];
}
