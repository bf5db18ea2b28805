import { systemClock, type Clock } from '../shared/base/clock.ts';
import { createScriptedProvider } from '../worker/llm/backends/scripted.ts';
import { wrapProvider, type LlmProvider, type LlmRequest } from '../worker/llm/provider.ts';
import { answersLeft, scriptOf, type Script } from './scripts.ts';

/** Settings of a {@link scriptedModel}. */
export interface ScriptedModelOptions {
  /** The provider that it stands in for, in events and errors. Default: `scripted`, which has the prices of OpenAI. */
  readonly id?: string;
  /** What its delays go by. Default: the clock of the test that it is in, else the time of the system. */
  readonly clock?: Clock;
}

/** A model that answers by a script. It is an `LlmProvider`: whatever takes one takes it. */
export interface ScriptedModel extends LlmProvider {
  /** What it was asked, in order, with the requests whose calls failed. */
  readonly requests: readonly LlmRequest[];
  /** How many answers of its script no request got. See `assertAllAnswered`. */
  readonly left: number;
  /** Its delays go by this clock from now on, unless it was made with one. */
  useClock(clock: Clock): void;
}

/**
 * Makes a model that answers by a script, without a network: texts word by word or in given pieces, tool calls, reasoning, usage
 * (estimated when it is absent), errors of every kind, and delays. Throws `validation` for a script that is none.
 *
 * @example
 * const model = scriptedModel([calls('lookup_order', { order: '7' }), { text: ['It was ', 'shipped.'], deltaMs: 20 }]);
 * const agent = createAgent(support, { provider: model });
 * await agent.run('Where is order 7?');
 * model.requests[1]?.messages.at(-1); // the result of lookup_order, as the model saw it
 */
export function scriptedModel(script: Script, { id = 'scripted', clock }: ScriptedModelOptions = {}): ScriptedModel {
  const answer = scriptOf(script);
  const requests: LlmRequest[] = [];
  let time: Clock = clock ?? systemClock;
  const provider = createScriptedProvider(answer, { id, clock: clockThat(() => time) });
  const generate: LlmProvider['generate'] = async (request, onPart, signal) => {
    requests.push({ ...request, messages: [...request.messages] });
    return await provider.generate(request, onPart, signal);
  };
  return {
    ...wrapProvider(provider, generate),
    requests,
    get left() {
      return answersLeft(answer);
    },
    useClock(given) {
      time = clock ?? given;
    },
  };
}

/** A clock that is looked up at each use. */
function clockThat(current: () => Clock): Clock {
  return {
    now: () => current().now(),
    monotonic: () => current().monotonic(),
    sleep: (ms, signal, purpose) => current().sleep(ms, signal, purpose),
  };
}
