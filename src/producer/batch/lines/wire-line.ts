import { z } from 'zod';
import { depthOver, isRecord, jsonOr, maxLevels } from '../../../shared/base/json.ts';
import type { BatchEndpoint } from '../../../shared/contract/batch.ts';
import type { LineDefaults } from './line.ts';
import type { Parsed } from './own-line.ts';

export type WireEndpoint = Exclude<BatchEndpoint, '/v1/runs'>;

const customId = z.string().min(1).max(512);

/** A line of an OpenAI batch file: a request under a name. The codes of what is wrong are theirs. */
export function wireLine(text: string, endpoint: WireEndpoint, defaults: LineDefaults): Parsed {
  const value = jsonOr(text);
  if (!isRecord(value)) return { id: undefined, problem: 'is no JSON object', reason: 'invalid_json_line' };
  const named = customId.safeParse(value['custom_id']);
  if (!named.success) {
    const problem = 'needs a custom_id of 1 to 512 characters';
    return { id: undefined, problem, reason: 'missing_required_parameter', param: 'custom_id' };
  }
  const id = named.data;
  const { method, url, body } = value;
  if (method !== 'POST') return { id, problem: 'needs method POST', reason: 'invalid_method', param: 'method' };
  if (url !== endpoint)
    return { id, problem: `needs the url of its batch, ${endpoint}`, reason: 'invalid_url', param: 'url' };
  if (!isRecord(body)) return { id, problem: 'needs a body', reason: 'missing_required_parameter', param: 'body' };
  if (depthOver(text, maxLevels)) return { id, problem: `is nested deeper than ${maxLevels} levels`, param: 'body' };
  return { id, ...requestOf(body, defaults) };
}

function requestOf(body: Record<string, unknown>, defaults: LineDefaults) {
  const { model, input } = body;
  if (typeof model !== 'string' || typeof input !== 'string')
    return { problem: 'needs a model and an input', param: 'body' };
  return { request: { ...defaults, agent: model, input } };
}
