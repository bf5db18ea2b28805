import { z } from 'zod';
import { asRunError } from '../../../shared/base/errors.ts';
import { isRecord, jsonOr } from '../../../shared/base/json.ts';
import { wireErrorOf } from '../../openai/wire-error.ts';
import { runRequestOf, wireNameOf, type WireEndpoint } from '../../openai/run-request.ts';
import type { LineDefaults } from './line.ts';
import type { Parsed } from './own-line.ts';

const customId = z.string().min(1).max(512);

/** A line of an OpenAI batch file: a request under a name. The codes of what is wrong are theirs, where they have one. */
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
  try {
    return { id, request: { ...defaults, ...runRequestOf(endpoint, body, { isBatchLine: true }) } };
  } catch (thrown) {
    const { code, message, retryable, details } = asRunError(thrown);
    if (code === 'internal') throw thrown;
    const { param } = wireErrorOf({ code, message, retryable, details }, 400, wireNameOf(endpoint)).error;
    return { id, problem: `is refused: ${message}`, reason: 'invalid_request', param: param ?? 'body' };
  }
}
