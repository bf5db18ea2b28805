import { z } from 'zod';
import { agentDefinition, limits, requestBounds, type AgentDefinition } from '../../src/shared/contract/agent/agent.ts';
import { fieldSpellings } from '../../src/worker/agents/agent-spellings.ts';
import { code, table, typeName, type JsonSchema } from './json-schema.ts';

const intro = `# Agents

The fields of an agent, the same in YAML and in \`defineAgent\`. Unknown fields are errors; every problem of a folder is
reported at once, by \`millrace agents check\` and by a worker that starts. Only \`model\` is required: the id of an agent
in a file is the file's name.`;

/** What each field means. A field that is missing here does not compile. */
const meanings: Readonly<Record<keyof AgentDefinition, string>> = {
  id: 'Its name in requests. In a file: the name of the file.',
  name: 'For people.',
  version: 'For people.',
  description: 'For people, and for agents that choose among agents.',
  instructions: 'The system text.',
  provider: 'Id of the provider of `model`.',
  model: 'The model where the request names none. `provider/model` names a provider as well.',
  fallbackModels:
    'Models that follow in this order when the one before is used up. One that is named again is left out.',
  preferredModel:
    'Instead of `model`, where neither the request nor a tool says otherwise: a tier, or one model of a provider.',
  modelTierMap: 'Which model stands for `fast`, `balanced` and `smart`. Looked up once, at the start.',
  retry:
    'Attempts per model, the first included, and how the waits between them grow. Default 4, exponential; in nodes 1.',
  tools:
    'Names of tools: of modules in `tools/`, of this package, `mcp:<server>` or `mcp:<server>/<tool>`. In TypeScript also tools themselves.',
  toolOptions:
    'What this agent sets instead of the tool itself, by name of a tool; of a server: `mcp:<server>/<tool>`.',
  mcpServers: 'MCP servers by name. See [MCP](../mcp.md).',
  capabilities: 'Names of capabilities that the worker has. See [MCP](../mcp.md#capabilities).',
  postRun: 'Its post-run jobs in threads: `title`, `embeddings`. See [threads](../threads.md#after-an-answer).',
  subagents:
    'Ids of agents that it may ask with `ask_agent`, or `*` for all others. See [agents that work together](../agents-together.md).',
  agentTools:
    'Agents as tools, by the name of the tool. See [agents that work together](../agents-together.md#agents-as-tools).',
  handoffs:
    'Agents that may take over, as ids or with a `filter` for what crosses. See [agents that work together](../agents-together.md#handoffs).',
  unknownCapability:
    '`skip`: one that the worker does not have is left out with a warning. Default: the agent is refused.',
  inputFiles:
    "`trust` of what files of the input say: `external`, a stranger may have written it (the default), or `user`, the user's own word. See [files as input](../files-as-input.md#trust).",
  trust:
    '`sandbox`: no tool starts a process or contacts anybody. `controlled`, `unrestricted`: what grants and policies allow.',
  toolInvocation:
    '`code-mode`: the model writes scripts that call the tools, and sees only what they return. See [code mode](../code-mode.md).',
  toolCollisions:
    'Two tools of one name: the later one gets the name of its source in front, is left out, or is an error.',
  interaction: '`headless`: no person can be asked, so what needs one is denied.',
  approvals:
    'How long people have to decide, and how many of them have to grant a call. See [approvals](../approvals.md).',
  dataFlowPolicy:
    'Where data may flow: what becomes of calls that would carry untrusted data out. See [security](../security.md).',
  loopGuard:
    'From when on a run goes in circles, and so is stopped step by step: `true` for the defaults, `false` for never. Default: `LOOP_GUARD` of the worker. See [loops and limits](../loops-and-limits.md).',
  causalityMonitor:
    'Watches what crosses between agents once one of them was denied something: `strictness` and phrases of your own (`denialPatterns`). See [lateral-leak guards](../policies-and-trust.md#lateral-leak-guards).',
  mergeGuard:
    'Measures how much children of little trust have of a merged answer, in its fan-outs that a judge merges.',
  protocolGuard:
    'What becomes of control characters and breaks of an SSE frame in results of its tools and answers of its models: `escape`, `replace` or `reject`.',
  commentary:
    'What becomes of a text that its model writes beside tool calls where it leaves the run: `pass`, `wrap` or `strip`.',
  policies: 'Rules about calls. See [policies and trust](../policies-and-trust.md).',
  policyDenial: 'A denial by a rule fails the run with `tool_denied`, or goes to the model.',
  approvalDenial: 'A denial by a person, or by the clock, does.',
  fileScope: 'The folder under `MILLRACE_FILES` that `read_file` may read.',
  directories:
    'More folders under `MILLRACE_FILES` that prompt builders, capabilities and tools get. See [prompts and skills](../prompts-and-skills.md).',
  skills: 'Names of skills in `skills/`. See [prompts and skills](../prompts-and-skills.md#skills).',
  untrustedPreamble: 'Whether the system text says, from the first tool result on, that results are data.',
  locale: 'BCP 47: the language of the texts that this system itself adds for the model.',
  toolFailure:
    'A tool that failed: its error goes to the model (`feed_back`), the run fails, or it ends as `degraded`. Default `feed_back`; in nodes `fail`.',
  subagentFailure:
    'An agent that it asked and that did not come to its end: the same three. Default `feed_back`; in nodes `fail`.',
  limits:
    'Bounds of a run. A request may lower them, and raise `maxSteps` where the agent sets none, up to `MAX_STEPS_CAP`. `subagentFanoutPerStep` (4): how many other agents one step asks.',
  budget: 'What a run may spend at most. A request may give less; zero or less there leaves it as it is.',
  callersMayRaise:
    'Which of these a request may set higher than the agent has it: `budget`, `retry`, and names of limits. `raise: true` raises all of them, with a key of the scope `admin`.',
  maxOutputTokens: 'Longest answer of one model call.',
  temperature: 'Sent as it is; absent: not sent.',
  topP: 'Sent as it is; absent: not sent.',
  stop: 'Texts at which the model stops.',
  reasoningEffort: 'Sent to providers and models that reason.',
  reasoningRetention: '`keep`: what a model thought goes back to the same provider within a run. `strip`: never.',
  compaction:
    'When a conversation that grows too long for its model is summarised. Absent: never. See [context](../context.md).',
  sensitivity: 'What its runs are about. `secret`: their conversations are never summarised.',
  archive:
    'Whether what its runs did can be read for `ARCHIVE_TTL_S` after their end. Default `true`; with `sensitivity: secret` `false`.',
  outputSchema: 'JSON Schema that the final answer has to match; in TypeScript also a zod schema.',
  outputValidation:
    '`deep` checks the answer against the schema, `parse` only that it is JSON. Default `deep`; in nodes `parse`.',
  outputRepairAttempts: 'How often a wrong final answer goes back to the model with what is wrong about it.',
  llmFailure:
    'When no model answered: the run fails, or ends as `degraded` with the error as its text. Default `fail`.',
  breaker: 'When a model that keeps failing is left alone by the whole fleet, and what a run does that has no other.',
  rateLimitCooldownMs: 'How long a run leaves a provider alone after a 429, where it has another one.',
  fallbackOnAuth: 'Refused credentials lead to the next model instead of ending the run.',
  midStream: 'A stream that breaks off after its first text ends the run, or emits `step.reset` and is made again.',
};

const functions = `## In TypeScript only

| field          | meaning                                                                                                        |
| -------------- | -------------------------------------------------------------------------------------------------------------- |
| \`instructions\` | also \`(agent, { cwd?, directories, task?, background, threadId? }) => string\`, which makes the prompt of each run |
| \`prepareStep\` | \`({ stepNumber, messages, lastCalls }) => { model?, provider?, toolChoice? }\` or nothing, before each step       |
| \`postCompactionHooks\` | functions of \`({ stepNumber, source, beforeTokens, afterTokens, messages })\` that return a text for the next model call, or nothing, after each compaction |
| \`fallbackModels\` | also providers in code: \`{ provider, model }\` with the object, or the object alone, which is asked for \`model\`. See [your own provider](../custom-providers.md#your-own-provider) |
| \`llmPolicy\`   | \`({ runId, tenant, agentId, stepNumber, spentMicrocents }) => { action: 'allow' }\` or \`{ action: 'deny', reason }\` |`;

/** Every field of an agent, and every other way to write it. */
export function agentsPage(): string {
  const { properties = {} } = z.toJSONSchema(agentDefinition, { io: 'input' }) as JsonSchema;
  const rows = Object.entries(properties).map(([name, field]) => [
    code(name),
    typeName(withoutSpellings(name, field)),
    field.default === undefined ? '' : code(JSON.stringify(field.default)),
    meanings[name as keyof AgentDefinition],
  ]);
  const groups: JsonSchema['properties'] = {
    ...properties,
    limits: z.toJSONSchema(limits.extend(requestBounds.shape), { io: 'input' }) as JsonSchema,
  };
  const inside = ['limits', 'budget', 'breaker', 'retry'].map((name) => {
    const fields = Object.entries(groups[name]?.properties ?? {});
    const isDescribed = fields.some(([, { description }]) => description !== undefined);
    const cells = fields.map(([field, schema]) => [
      code(`${name}.${field}`),
      typeName(schema),
      schema.default === undefined ? '' : code(JSON.stringify(schema.default)),
      ...(isDescribed ? [schema.description ?? ''] : []),
    ]);
    return table(['field', 'type', 'default', ...(isDescribed ? ['meaning'] : [])], cells);
  });
  const spellings = fieldSpellings.map(([spelling, field]) => [code(spelling), code(field)]);
  return [
    intro,
    table(['field', 'type', 'default', 'meaning'], rows),
    '## Fields within',
    ...inside,
    functions,
    '## Other spellings',
    otherSpellings,
    table(['written as', 'is read as'], spellings),
    otherValues,
    table(['value', 'in `toolFailure`, `subagentFailure`', 'in `approvalDenial`', 'in `llmFailure`'], valueRows()),
  ].join('\n\n');
}

const otherSpellings = `Read as the field beside them; times are in seconds there (\`…S\`) and in milliseconds here (\`…Ms\`). A field that is
given in two spellings is an error.`;

const otherValues = 'Failure policies have other names, too:';

function valueRows(): string[][] {
  const { toolFailure, approvalDenial, llmFailure } = agentDefinition.shape;
  const values = ['retry_then_fail', 'fail_fast', 'fail_run', 'retry_then_degrade', 'continue', 'continue_with_error'];
  return [...values, 'retry_then_continue', 'skip_action'].map((value) => [
    code(value),
    code(toolFailure.parse(value) ?? ''),
    code(approvalDenial.parse(value)),
    code(llmFailure.parse(value)),
  ]);
}

/** The values that are meant; the others have a table of their own. */
function withoutSpellings(name: string, field: JsonSchema): JsonSchema {
  if (['toolFailure', 'subagentFailure', 'approvalDenial'].includes(name))
    return { enum: ['feed_back', 'fail', 'degrade'] };
  return name === 'llmFailure' ? { enum: ['fail', 'degrade'] } : field;
}
