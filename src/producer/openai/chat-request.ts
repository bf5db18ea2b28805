import { z } from 'zod';
import { byAgent, mapped, refused, required } from './fields.ts';
import { chatMessage } from './messages.ts';
import { metadata, modelName, namedFormat, noTools, tokens } from './shared-fields.ts';

const responseFormat = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_schema'), json_schema: namedFormat }),
  z.strictObject({
    type: z.literal('json_object').refine(() => false, 'is refused: name the shape of the answer with `json_schema`'),
  }),
]);

/** The fields of `POST /v1/chat/completions`, and what becomes of each. */
export const chatFields = {
  model: required(modelName, 'The agent, or `agent@version`'),
  messages: required(z.array(chatMessage).min(1).max(2_000), '`input`, `history` and `instructions` of the run'),
  stream: mapped(z.boolean(), 'Whether the answer is a stream'),
  stream_options: mapped(
    z.strictObject({
      include_usage: z.boolean().optional(),
      include_obfuscation: z.literal(false, 'is refused: answers are not padded').optional(),
    }),
    '`include_usage` adds a last chunk with the usage',
  ),
  metadata: mapped(metadata, '`metadata` of the run, and its [extras](#extras-in-metadata)'),
  max_completion_tokens: mapped(tokens, '`overrides.maxOutputTokens`: of each answer of a model'),
  max_tokens: mapped(tokens, 'The same'),
  response_format: mapped(responseFormat, '`outputSchema` of the run'),
  store: mapped(z.boolean(), '`false` becomes `store: false` of the run'),
  temperature: byAgent(z.number(), '`temperature` of the agent'),
  top_p: byAgent(z.number(), '`topP` of the agent'),
  reasoning_effort: byAgent(z.string(), '`reasoningEffort` of the agent'),
  verbosity: byAgent(z.string(), 'its instructions say how long it answers'),
  seed: byAgent(z.int(), 'its models are asked without one'),
  presence_penalty: byAgent(z.number(), 'its models are asked without one'),
  frequency_penalty: byAgent(z.number(), 'its models are asked without one'),
  parallel_tool_calls: byAgent(z.boolean(), '`limits.maxParallelTools` of the agent'),
  user: byAgent(z.string(), 'no provider learns who asks'),
  safety_identifier: byAgent(z.string(), 'no provider learns who asks'),
  prompt_cache_key: byAgent(z.string(), 'providers cache by the beginning of the prompt'),
  prompt_cache_retention: byAgent(z.string(), 'providers cache by the beginning of the prompt'),
  service_tier: refused('the provider of the agent decides how it serves', ['auto', 'default']),
  tools: refused(noTools),
  tool_choice: refused(noTools, ['auto', 'none']),
  functions: refused(noTools),
  function_call: refused(noTools, ['auto', 'none']),
  web_search_options: refused(noTools),
  n: refused('an agent gives one answer; send the request several times', [1]),
  stop: refused('it would cut the answers of the agent in the midst of its work'),
  logit_bias: refused('it would change how the agent calls its tools'),
  logprobs: refused('answers come without probabilities', [false]),
  top_logprobs: refused('answers come without probabilities', [0]),
  modalities: refused('an agent answers in text', [['text']]),
  audio: refused('an agent answers in text'),
  prediction: refused('an agent has no text to begin from'),
} as const;

/** What `POST /v1/chat/completions` takes. */
export const chatRequest = z.strictObject(chatFields);
