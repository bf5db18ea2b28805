import { LlmError } from '../../src/worker/llm/errors.ts';
import type { ModelScript, ScriptedAnswer } from '../../src/worker/llm/backends/scripted.ts';

/** Scripts for tests. */
export const scripted = {
  /** Always answers this. */
  text(text: string): ModelScript {
    return () => ({ text });
  },
  /** Calls a tool, and answers `then` once the tool has its result in this turn. */
  callsTool(name: string, args: unknown = {}, then = 'done'): ModelScript {
    return (request) => (request.messages.at(-1)?.role === 'tool' ? { text: then } : { toolCalls: [{ name, args }] });
  },
  /** One after the other, call by call. A call too many fails: nothing is repeated in silence. */
  sequence(answers: readonly (ScriptedAnswer | ModelScript)[]): ModelScript {
    let next = 0;
    return (request, signal) => {
      const answer = answers[next++];
      if (answer === undefined) throw new LlmError('unknown', 'scripted', 'the script has no further answer');
      return typeof answer === 'function' ? answer(request, signal) : answer;
    };
  },
};
