import type { ToolMessage } from '../../../shared/contract/message.ts';
import type { LlmRequest } from '../provider.ts';

/** What happened since the user spoke last: all that a script looks at. */
export interface TurnSoFar {
  readonly input: string;
  readonly results: readonly ToolMessage[];
}

export function turnOf(request: LlmRequest): TurnSoFar {
  const start = request.messages.findLastIndex((message) => message.role === 'user');
  const said = request.messages[start];
  return {
    input: said?.role === 'user' ? said.content : '',
    results: request.messages.slice(start + 1).filter((message) => message.role === 'tool'),
  };
}
