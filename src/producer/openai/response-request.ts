import { z } from 'zod';
import { publicId } from '../../shared/base/ids.ts';
import { byAgent, mapped, refused, required } from './fields.ts';
import { inputItem } from './messages.ts';
import { metadata, modelName, namedFormat, noTools, tokens } from './shared-fields.ts';

const format = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  namedFormat.extend({ type: z.literal('json_schema') }),
  z.strictObject({
    type: z.literal('json_object').refine(() => false, 'is refused: name the shape of the answer with `json_schema`'),
  }),
]);

/** `resp_` and the id of a run. */
export const responseId = z.string().regex(/^resp_[0-9A-HJKMNP-TV-Z]{26}$/, 'is not the id of a response');

const conversation = z.union([publicId, z.strictObject({ id: publicId })], 'must be the id of a conversation');

/** The fields of `POST /v1/responses`, and what becomes of each. */
export const responseFields = {
  model: required(modelName, 'The agent, or `agent@version`'),
  input: required(
    z.union([z.string(), z.array(inputItem).min(1).max(2_000)]),
    '`input`, `history` and `instructions` of the run',
  ),
  instructions: mapped(z.string(), '`instructions` of the run, behind those of the agent'),
  stream: mapped(z.boolean(), 'Whether the answer is a stream'),
  stream_options: mapped(
    z.strictObject({ include_obfuscation: z.literal(false, 'is refused: answers are not padded').optional() }),
    'Nothing: answers are never padded',
  ),
  background: mapped(z.boolean(), 'The answer is sent at once, and names the run'),
  store: mapped(z.boolean(), '`false` becomes `store: false` of the run'),
  previous_response_id: mapped(responseId, '`history` of the run, or its `thread` where that response is in one'),
  conversation: mapped(conversation, '`thread` of the run'),
  metadata: mapped(metadata, '`metadata` of the run, and its [extras](#extras-in-metadata)'),
  max_output_tokens: mapped(tokens, '`overrides.maxOutputTokens`: of each answer of a model'),
  max_tool_calls: mapped(z.int().min(1).max(100_000), '`limits.maxToolCalls`'),
  text: mapped(
    z.strictObject({ format: format.nullish(), verbosity: z.string().nullish() }),
    '`format` becomes `outputSchema` of the run; `verbosity` is decided by the agent',
  ),
  temperature: byAgent(z.number(), '`temperature` of the agent'),
  top_p: byAgent(z.number(), '`topP` of the agent'),
  reasoning: byAgent(z.looseObject({}), '`reasoningEffort` of the agent'),
  parallel_tool_calls: byAgent(z.boolean(), '`limits.maxParallelTools` of the agent'),
  truncation: byAgent(z.enum(['auto', 'disabled']), '`compaction` of the agent'),
  user: byAgent(z.string(), 'no provider learns who asks'),
  safety_identifier: byAgent(z.string(), 'no provider learns who asks'),
  prompt_cache_key: byAgent(z.string(), 'providers cache by the beginning of the prompt'),
  prompt_cache_retention: byAgent(z.string(), 'providers cache by the beginning of the prompt'),
  include: refused('an answer has its text, and nothing that belongs to the models of the agent', [
    ['reasoning.encrypted_content'],
  ]),
  service_tier: refused('the provider of the agent decides how it serves', ['auto', 'default']),
  tools: refused(noTools),
  tool_choice: refused(noTools, ['auto', 'none']),
  top_logprobs: refused('answers come without probabilities', [0]),
  prompt: refused('the agent has its prompt'),
  context_management: refused('`compaction` of the agent does it'),
} as const;

/** What `POST /v1/responses` takes. */
export const responseRequest = z.strictObject(responseFields);
export type ResponseRequest = z.output<typeof responseRequest>;
