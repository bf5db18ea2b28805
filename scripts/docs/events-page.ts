import { z } from 'zod';
import { eventBodies, eventEnvelope, isDelta, isLifecycle, isTerminal } from '../../src/shared/contract/event.ts';
import { reservedEvents } from '../../src/shared/contract/reserved.ts';
import { code, fieldTable, table, type JsonSchema } from './json-schema.ts';

const intro = `# Events

Everything that happens in a run is an event: an immutable fact, numbered from 1 without gaps. A subscriber ignores types
and fields that it does not know. Where and how events are read: [HTTP](http.md), and the keys and channels below. The
same in the words of other systems: [dialects](../dialects.md).

- An event has at most 64 KiB as JSON; one with an answer (\`text.complete\`, \`agent.response\`, \`agent.end\`, \`node.completed\`,
  \`run.completed\`, \`run.failed\`) 1 MiB. Of a longer one the middle of its long texts, and the end of its long lists, are left out,
  and \`truncated\` names the fields. The run has its result whole. A longer delta becomes several.
  A \`subagent.event\` is as long as the event in it, and its own envelope.
- Replay buffer of a run: the stream \`<prefix>:{<runId>}:events\`, entry id \`<sequenceNumber>-0\`, field \`e\` the event as
  JSON.
- Live: the channel \`<prefix>:{<runId>}:live\` (a sharded channel in a Cluster), each message a JSON array of one or more
  events in order. Read the stream first, use the channel as feed and wake-up, and read the stream again on any gap, after
  a reconnect and after 5 seconds of silence.
- Of all runs, without deltas: the channel \`<prefix>:firehose\`.
- Lifecycle events also go to the stream \`<prefix>:lifecycle\`, for consumer groups. In a Cluster each comes there at least once,
  a moment after its run has it, or within half a minute when the stream's node was away: drop one whose \`runId\` and
  \`sequenceNumber\` you have seen. Elsewhere each is there once, from the same moment on.`;

const envelope = `## Envelope

Fields of every event, beside \`type\` and those of its own type.`;

const reserved = `## Reserved types

Their names and fields are fixed so that subscribers can be written against them. This version emits none of them.`;

/** Every event type with the fields of its body. */
export function eventsPage(): string {
  const all = Object.entries(eventBodies).map(([type, body]): [string, JsonSchema] => [type, jsonSchema(body)]);
  return [
    intro,
    envelope,
    fieldTable(jsonSchema(eventEnvelope)),
    '## Types',
    ...all.filter(([type]) => !(type in reservedEvents)).flatMap(([type, schema]) => section(type, schema)),
    reserved,
    table(['type', 'fields'], all.filter(([type]) => type in reservedEvents).map(reservedRow)),
  ].join('\n\n');
}

function reservedRow([type, { properties = {}, required = [] }]: [string, JsonSchema]): string[] {
  const fields = Object.keys(properties).map((name) => code(required.includes(name) ? name : `${name}?`));
  return [code(type), fields.join(', ') || '–'];
}

function section(type: string, schema: JsonSchema): string[] {
  const traits = [
    isTerminal({ type }) && 'Terminal: nothing follows it.',
    isLifecycle(type) && !isTerminal({ type }) && 'Lifecycle.',
    isDelta(type) && 'Delta: merged on the way out, and not in the firehose.',
  ].filter((trait) => trait !== false);
  const text = [schema.description, ...traits].filter(Boolean).join(' ');
  const hasFields = Object.keys(schema.properties ?? {}).length > 0;
  return [`### ${code(type)}`, text, hasFields ? fieldTable(schema) : 'No fields of its own.'];
}

function jsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { unrepresentable: 'any' }) as JsonSchema;
}
