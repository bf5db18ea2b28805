// An agent that asks one colleague and hands the conversation over to another, in this process and without Redis.
// Run it with `npm run example examples/agents-together.ts`. It needs nothing: its models only pretend.

import { createAgent, defineAgent, type LlmProvider } from 'millrace/worker';

const billing = defineAgent({ id: 'billing', model: 'gpt-5.2', description: 'Knows all invoices.' });
const shipping = defineAgent({ id: 'shipping', model: 'gpt-5.2-nano', description: 'Knows where parcels are.' });
const reception = defineAgent({
  id: 'reception',
  model: 'gpt-5.2-mini',
  instructions: 'You answer customers. Ask billing about money; hand parcels over.',
  subagents: ['billing'],
  handoffs: ['shipping'],
});

/** What each of the three would say: the reception asks or hands over, and repeats the answer. */
const pretending: LlmProvider = {
  id: 'openai',
  capabilities: { tools: true, reasoning: false },
  async generate({ model, messages }, onPart) {
    const last = messages.at(-1);
    const asked = last?.role === 'user' ? last.content : '';
    const call = (name: string, args: object) =>
      ({ type: 'tool_call', id: 'call_1', name, args: JSON.stringify(args) }) as const;
    const say = (text: string) => {
      onPart({ type: 'text', delta: text });
      return { type: 'text', text } as const;
    };
    const part =
      model === billing.definition.model
        ? say('Invoice 7 is paid.')
        : model === shipping.definition.model
          ? say('Here is shipping: it arrives tomorrow.')
          : last?.role === 'tool'
            ? say(`Billing says: ${last.content}`)
            : asked.includes('parcel')
              ? call('transfer_to_shipping', {})
              : call('ask_agent', { agent: 'billing', message: asked });
    return {
      message: { role: 'assistant', parts: [part] },
      finishReason: part.type === 'text' ? 'stop' : 'tool_use',
      incompleteToolCalls: [],
      usage: { input: 200, output: 20, cached: 0, cacheWrite: 0, total: 220 },
    };
  },
};

const agent = createAgent(reception, { agents: [billing, shipping], provider: pretending });
for (const input of ['Is invoice 7 paid?', 'Where is my parcel?']) {
  const stream = agent.stream(input, { thread: 'customer-42' });
  for await (const event of stream) {
    if (event.type === 'subagent.event') {
      const inner = event.event as { type: string; agentId: string };
      if (inner.type === 'run.completed') console.log(`[${inner.agentId} has answered]`);
    }
    if (event.type === 'handoff') console.log(`[${event.fromAgentId} hands over to ${event.toAgentId}]`);
    if (event.type === 'text.delta') process.stdout.write(event.delta);
  }
  const { usage, costMicrocents } = await stream.result;
  console.log(
    `\n${usage?.total} tokens of ${Object.keys(usage?.byModel ?? {}).join(' and ')}, ${costMicrocents} microcents`,
  );
}
