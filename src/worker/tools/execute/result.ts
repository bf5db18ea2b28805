import { sha256 } from '../../../shared/base/ids.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { lessTrusted } from '../../../shared/contract/agent/trust.ts';
import { lessPublic } from '../../../shared/contract/message.ts';
import { sanitise, type Sanitised, treatmentOf } from '../../guards/sanitise.ts';
import type { Batch } from './batch.ts';
import { clip } from '../../../shared/base/text.ts';
import type { CallResult } from '../../../shared/contract/journal/turn-state.ts';
import { fitResult } from './fit.ts';
import type { ReadyCall } from './prepare.ts';
import { labelsOfScript } from './script-reads.ts';
import { mappedResult } from '../mapping.ts';
import { errorResult, faultOf, ToolError } from '../tool-error.ts';
import { ToolOutput, type Tool } from '../tool.ts';
import { jsonText } from '../../../shared/base/json.ts';

const noOutput = 'The tool ran with no output.';
const maxSummaryChars = 500;
const maxShownChars = 4_000;
const maxErrorChars = 1_500;

/**
 * A tool's return value as the model will see it: text as it is, everything else as JSON, within the tool's bound, and
 * treated as the trust in what made it asks for. Never rejects.
 */
export async function finishResult(ready: ReadyCall, returned: unknown, batch: Batch): Promise<CallResult> {
  const { tool, call } = ready;
  const output = returned instanceof ToolOutput ? returned : new ToolOutput(returned);
  const script = labelsOfScript(ready, batch);
  const origin = originOf(tool, output.origin ?? script?.worst, call.name);
  try {
    const value = tool.outputMapping && !output.isError ? mappedResult(tool.outputMapping, output.value) : output.value;
    const written = typeof value === 'string' ? value : (jsonOf(value) ?? '');
    // Before any of it is kept.
    const text = batch.host.redactor.secrets(written);
    if (text.trim() === '') return { content: noOutput };
    // What is kept is labelled like what is shown: by what made it, which is not always the tool.
    const kept = originOf(origin, script?.kept, origin.toolName);
    const maker = { ...tool, ...origin, trust: kept.trust, sensitivity: kept.sensitivity, name: origin.toolName };
    const fitted = await fitResult(text, maker, batch.context.spill, batch.signal);
    // An error is cut once more, and must not lose the end of its wrapping.
    const clean = cleaned(output.isError ? clip(fitted.content, maxErrorChars) : fitted.content, tool, origin, batch);
    if (clean.blocked) {
      const message = `its result has what looks like instructions (${clean.findings.join(', ')})`;
      return errorResult({ kind: 'inbound_sanitization_blocked', message }, call.name);
    }
    if (output.isError) {
      const message = batch.host.redactor.text(clean.text);
      const failed = errorResult({ kind: 'execution_failed', message }, call.name);
      const { trust, sensitivity } = origin;
      const flow = script?.flowOf(failed.content);
      return { ...failed, trust, sensitivity, findings: clean.findings, sanitized: clean.sanitized, flow };
    }
    return {
      content: clean.text,
      trust: origin.trust,
      sanitized: clean.sanitized,
      findings: clean.findings.length > 0 ? clean.findings : undefined,
      sensitivity: origin.sensitivity === tool.sensitivity ? undefined : origin.sensitivity,
      flow: script?.flowOf(clean.text) ?? output.flow,
      handle: output.handle ?? fitted.handle,
    };
  } catch (thrown) {
    const message = thrown instanceof ToolError ? thrown.message : 'its result cannot be written as JSON';
    return errorResult({ kind: 'invalid_output', message }, call.name);
  }
}

export function finishFault(ready: ReadyCall, thrown: unknown, batch: Batch): CallResult {
  const { tool, call } = ready;
  // Its message may quote what it has read.
  const script = labelsOfScript(ready, batch);
  const { trust, sensitivity } = originOf(tool, script?.worst, call.name);
  const { kind, message } = faultOf(thrown);
  const text = batch.host.redactor.text(clip(message, maxErrorChars));
  const clean = cleaned(text, tool, { toolName: call.name, trust }, batch);
  const shown = clean.blocked ? 'it failed, and its message was refused' : clean.text;
  const failed = errorResult({ kind, message: shown }, call.name);
  const flow = script?.flowOf(failed.content);
  return { ...failed, trust, sensitivity, findings: clean.findings, sanitized: clean.sanitized, flow };
}

type Origin = NonNullable<ToolOutput['origin']>;
type Labels = Pick<Tool, 'trust' | 'sensitivity'>;

/** Where a result comes from: trusted and public no further than its tool is here, nor than what the tool itself says about it. */
function originOf(
  { trust, sensitivity }: Labels,
  said: (Labels & Partial<Origin>) | undefined,
  toolName: string,
): Origin {
  return {
    toolName,
    ...said,
    trust: lessTrusted(trust, said?.trust),
    sensitivity: lessPublic(sensitivity, said?.sensitivity),
  };
}

/** The text without what might be taken for an order, as far as its origin is not trusted. */
function cleaned(
  text: string,
  tool: Pick<Tool, 'inboundSanitization'>,
  { toolName, trust, inboundSanitization }: Pick<Origin, 'toolName' | 'trust' | 'inboundSanitization'>,
  { host, context }: Pick<Batch, 'host' | 'context'>,
): Sanitised & Pick<CallResult, 'sanitized'> {
  const treatment = inboundSanitization ?? tool.inboundSanitization ?? treatmentOf[trust];
  // The same for every worker that finishes the same call, and unknown to the author of the text.
  const nonce = sha256(`${context.runId}:${host.step}:${toolName}`).slice(0, 12);
  const sanitized = treatment === 'wrap' || treatment === 'block' ? true : undefined;
  return { ...sanitise(text, { trust, toolName, nonce, treatment }), sanitized };
}

/** The beginning of a result for events, scrubbed. Scrubs more than it shows, so that no cut leaves half a credential. */
export function outputSummary(content: string, redactor: Redactor): string {
  return clip(redactor.text(clip(content, 4 * maxSummaryChars)), maxSummaryChars);
}

/** What a tool reports on its way (`progress`, `partial`), made safe and small enough for an event. Never throws. */
export function shownData(data: unknown, redactor: Redactor): unknown {
  try {
    const json = jsonOf(data);
    if (json === undefined) return null;
    if (json.length > maxShownChars) return redactor.text(clip(json, maxShownChars));
    return redactor.value(JSON.parse(json));
  } catch {
    return '[cannot be shown]';
  }
}

/**
 * The JSON text of whatever a tool's code handed over, or undefined when it stands for nothing (undefined, a function).
 * Big integers become decimal text, binary data a note of its size. Throws for cycles, throwing getters and values
 * beyond the length of one string.
 */
export function jsonOf(value: unknown): string | undefined {
  return jsonText(isBinary(value) ? noteOf(value) : value, plain);
}

/** Runs before a value's fields are visited, early enough to keep a Buffer from listing its bytes as numbers. */
function plain(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value))
    return value.some(isBinary) ? value.map((item) => (isBinary(item) ? noteOf(item) : item)) : value;
  if (!Object.values(value).some(isBinary)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, isBinary(item) ? noteOf(item) : item]));
}

type Binary = ArrayBuffer | ArrayBufferView;

function isBinary(value: unknown): value is Binary {
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer;
}

function noteOf(value: Binary): string {
  return `[${value.byteLength} bytes of binary data]`;
}
