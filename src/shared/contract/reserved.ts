import { z } from 'zod';
import type { ErrorCode } from '../base/errors.ts';

/** Types whose fields are fixed, so that subscribers can be written against them. Nothing emits them. */
export const reservedEvents = {
  'agent.followup.queued': z.object({}),
  'tool.call.delta': z.object({ toolCallId: z.string(), delta: z.string() }),
  'guardrail.tripped': z.object({ guardrail: z.string(), reason: z.string().optional() }),
  'source.cited': z.object({ uri: z.string(), title: z.string().optional() }),
  'verifier.result': z.object({ passed: z.boolean(), score: z.number().optional() }),
} as const satisfies Record<string, z.ZodObject>;

/** Codes whose meaning is fixed. Nothing throws them. */
export const reservedErrorCodes = ['invalid_fallback_policy'] as const satisfies readonly ErrorCode[];

/** Fields of a job whose form is fixed. Nothing writes or reads them. */
export const reservedJobFields = { traceparent: z.string().max(128).optional() };

/** Tools that this package adds by itself where an agent needs them: no other tool may have their names. */
export const reservedToolNames = [
  'tool_search',
  'read_result',
  'read_skill',
  'code_execute',
  'code_search',
  'list_agents',
  'ask_agent',
] as const;
