import swagger from '@fastify/swagger';
import type { FastifySchema } from 'fastify';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { agentDetail } from '../../shared/contract/agent/agent-detail.ts';
import { agentView } from '../../shared/contract/agent/agent.ts';
import type { Scope } from '../../shared/contract/config.ts';
import { decisionRequest } from '../../shared/contract/control.ts';
import { errorCode, errorInfo } from '../../shared/base/errors.ts';
import { erasureReceipt } from '../../shared/contract/erasure/receipt.ts';
import { eventSchema, eventVariants, pendingItem, pendingView, runResult } from '../../shared/contract/event.ts';
import { attempt } from '../../shared/contract/journal/journal.ts';
import { decisionView } from '../../shared/contract/decisions.ts';
import { flowFinding, shownFlow } from '../../shared/contract/flow.ts';
import { flowSource } from '../../shared/contract/message.ts';
import { mediaPart } from '../../shared/contract/media.ts';
import { fileView } from '../../shared/contract/files.ts';
import { publicId } from '../../shared/base/ids.ts';
import { inputPart } from '../../shared/contract/input-parts.ts';
import { describedTool, serverPins, toolChange } from '../../shared/contract/mcp-pins.ts';
import { budgetView, runUsage } from '../../shared/contract/money.ts';
import { runOutcomeView, runRequestBody, runStatus, runView } from '../../shared/contract/run.ts';
import { threadItem, threadView } from '../../shared/contract/thread/thread-items.ts';
import { batchView, runsBatchRequest, wireBatchRequest } from '../../shared/contract/batch.ts';
import { auditView } from '../client/audit/audit.ts';
import { approvalView } from '../../shared/contract/inbox/approvals.ts';
import { chatLine, chatTurnView } from '../client/chat/chat-line.ts';
import { chatTurnRequest } from '../client/chat/open-turn.ts';
import { costReport } from '../../shared/contract/report/costs.ts';
import { seriesReport } from '../../shared/contract/report/series.ts';
import { flowReport } from '../client/flows/flow-report.ts';
import { flowView } from '../client/flows/flows.ts';
import type { App } from './app.ts';
import { tidyDocument } from './openapi-document.ts';

/** Every error of every route has this body. */
const errorBody = z.object({ error: errorInfo });
export const errors = { '4xx': errorBody, '5xx': errorBody };

/** What a queued run is answered with. */
export const acceptedRun = z.object({
  runId: z.string(),
  status: runStatus,
  attached: z.boolean().describe('The execution id was known, and this is its run.'),
  warnings: z
    .array(z.string())
    .readonly()
    .optional()
    .describe('Such as that no live worker serves the queue: the run waits until one does.'),
});

export const runIdParam = z.object({ id: z.string().describe('Run id') });
export const threadIdParam = z.object({ id: z.string().describe('Thread id') });

/** The header that makes a repeated top-up harmless. */
export const topUpKey = z.object({
  'idempotency-key': publicId
    .optional()
    .describe('The same key again adds nothing, for as long as the account is kept.'),
});

/** A whole number in a query, without the coercions that JavaScript would do. */
export function wholeNumberParam(min: number, max: number) {
  return z
    .string()
    .refine((text) => /^\d{1,15}$/.test(text), 'must be a whole number')
    .meta({ type: 'integer', minimum: min, maximum: max })
    .transform(Number)
    .pipe(z.number().min(min).max(max));
}

// The global registry: the descriptions of fields are kept there, and only one registry is asked.
z.globalRegistry
  .add(errorBody, { id: 'Error' })
  .add(inputPart, { id: 'InputPart' })
  .add(runRequestBody, { id: 'RunRequest' })
  .add(chatTurnRequest, { id: 'ChatTurnRequest' })
  .add(chatLine, { id: 'ChatLine' })
  .add(chatTurnView, { id: 'ChatTurn' })
  .add(runView, { id: 'Run' })
  .add(runOutcomeView, { id: 'RunOutcome' })
  .add(acceptedRun, { id: 'AcceptedRun' })
  .add(agentView, { id: 'Agent' })
  .add(agentDetail, { id: 'AgentDetail' })
  .add(decisionRequest, { id: 'Decision' })
  .add(approvalView, { id: 'Approval' })
  .add(budgetView, { id: 'Budget' })
  .add(costReport, { id: 'CostReport' })
  .add(seriesReport, { id: 'SeriesReport' })
  .add(flowView, { id: 'Flow' })
  .add(auditView, { id: 'AuditEntry' })
  .add(erasureReceipt, { id: 'ErasureReceipt' })
  .add(flowReport, { id: 'FlowReport' })
  .add(batchView, { id: 'Batch' })
  .add(runsBatchRequest, { id: 'RunsBatchRequest' })
  .add(wireBatchRequest, { id: 'WireBatchRequest' })
  .add(serverPins, { id: 'McpPins' })
  .add(fileView, { id: 'File' })
  .add(threadView, { id: 'Thread' })
  .add(threadItem, { id: 'ThreadItem' })
  .add(eventSchema, { id: 'Event' })
  .add(runStatus, { id: 'RunStatus' })
  .add(errorCode, { id: 'ErrorCode' })
  .add(pendingItem, { id: 'PendingItem' })
  .add(pendingView, { id: 'Pending' })
  .add(runResult, { id: 'RunResult' })
  .add(mediaPart, { id: 'Media' })
  .add(runUsage, { id: 'RunUsage' })
  .add(attempt, { id: 'Attempt' })
  .add(decisionView, { id: 'DecisionView' })
  .add(errorInfo, { id: 'ErrorInfo' })
  .add(flowSource, { id: 'FlowSource' })
  .add(flowFinding, { id: 'FlowFinding' })
  .add(shownFlow, { id: 'ShownFlow' })
  .add(describedTool, { id: 'DescribedTool' })
  .add(toolChange, { id: 'ToolChange' });
for (const [type, variant] of eventVariants) z.globalRegistry.add(variant, { id: `${pascal(type)}Event` });

/** `RunCompleted` of `run.completed`. */
function pascal(type: string): string {
  return type.replaceAll(/(?:^|[._-])([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

const info = {
  title: 'Millrace',
  version: '1',
  description:
    'LLM agents as durable jobs. Every error has the body of the schema `Error`; `retryable` says whether the same request may succeed later. While Redis is away every route answers 503 within 5 seconds.',
};

/** What a route is registered with: the scope that its key needs, and its documentation. */
export function route<S extends FastifySchema>(access: Scope, schema: S) {
  return { schema, config: { access } };
}

/** Collects the routes that are registered after it into an OpenAPI document. */
export async function describeRoutes(app: App): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info,
      components: { securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } } },
      security: [{ apiKey: [] }, {}],
    },
    transform: withScope,
    transformObject: (document) => tidyDocument(jsonSchemaTransformObject(document)),
  });
}

/** Says of each route which scope its key needs, and what it is about. */
const withScope: typeof jsonSchemaTransform = (input) => {
  const { schema, url } = jsonSchemaTransform(input);
  const { access = 'open' } = input.route.config ?? {};
  const security = access === 'open' ? [] : [{ apiKey: [access] }, {}];
  return { schema: { ...schema, tags: [tagOf(url)], security }, url };
};

/** Generators make a module of each tag. */
function tagOf(url: string): string {
  const [, area] = /^\/v1\/([a-z]+)/.exec(url) ?? [];
  if (area === undefined) return 'service';
  return area === 'run' || area === 'media' ? 'runs' : area;
}
