import { defined } from '../../shared/base/collections.ts';
import { type Message, withoutReasoning } from '../../shared/contract/message.ts';
import { pairMessages } from '../../shared/contract/thread/turn-log.ts';
import type { ChainRequest } from '../llm/candidate.ts';
import { filesOfRequest } from '../llm/input-files.ts';
import type { Advertisement } from '../tools/registry.ts';
import { withFiles } from './shown-files.ts';
import { responseFormatOf } from './output.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import type { TurnSpec } from './turn-ports.ts';

/** The next step's request. Fields that are not set are absent, because absent fields are not sent. */
export function buildRequest(
  spec: TurnSpec,
  state: TurnState,
  tools: readonly Advertisement[],
  requestId: string,
): ChainRequest {
  const { maxOutputTokens, temperature, topP, stop, reasoningEffort, outputSchema } = spec;
  const { sessionToken, checkpointToken, serving, compaction, summarised } = state;
  const compactedHere = compaction?.step === state.step + 1;
  const messages = conversation(spec, state, compactedHere ? compaction.pinned : []);
  return defined({
    requestId,
    // A longer form of this request may have been sent before.
    idempotencyKey: compactedHere ? `${requestId}:after:${summarised?.replaced ?? 0}` : requestId,
    messages,
    readFile: spec.readFile && filesOfRequest({ messages }).length > 0 ? spec.readFile : undefined,
    tools: tools.length > 0 ? tools : undefined,
    toolChoice: tools.length > 0 ? 'auto' : undefined,
    maxOutputTokens,
    temperature,
    topP,
    stop,
    reasoningEffort,
    responseFormat: outputSchema && responseFormatOf(outputSchema),
    sessionToken,
    checkpointToken,
    sessionOf: serving,
    metadata: { ...spec.metadata, ...channels, tool_output_sanitized: isSanitized(messages) },
  });
}

/** Marks, for a provider that asks, which text is authored and which is data. */
const channels = {
  content_channels: { system: 'trusted_system', tool: 'untrusted_tool_output' },
};

/** Is there output of tools, and was all of it cleaned? */
function isSanitized(messages: readonly Message[]): boolean {
  const results = messages.filter((message) => message.role === 'tool');
  return results.length > 0 && results.every(({ sanitized }) => sanitized === true);
}

function conversation(spec: TurnSpec, { messages, hasResults }: TurnState, pinned: readonly string[]) {
  const { system, dataPreamble, reasoningRetention } = spec;
  const paired = withFiles(
    pairMessages(reasoningRetention === 'strip' ? withoutReasoning(messages, undefined) : messages),
  );
  const authored: Message[] = system === '' ? [] : [{ role: 'system', content: system }];
  // In a message of its own, so that the bytes before it are the ones that providers have cached.
  if (dataPreamble !== undefined && hasResults) authored.push({ role: 'system', content: dataPreamble });
  const said: Message[] = pinned.length > 0 ? [{ role: 'system', content: pinned.join('\n\n') }] : [];
  return [...authored, ...paired, ...said];
}
