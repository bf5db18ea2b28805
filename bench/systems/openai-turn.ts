import type OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { input, instructions, lookup, model, wireTool } from '../workload.ts';

/** The loop that everybody writes first, with the client as it comes: ask, run the tool, ask again. */
export async function openaiTurn(
  client: OpenAI,
  hooks: { onToken(text: string): unknown; onStep?(messages: unknown): unknown },
): Promise<string> {
  const messages: ChatCompletionMessageParam[] = [
    { role: 'system', content: instructions },
    { role: 'user', content: input },
  ];
  for (;;) {
    const stream = await client.chat.completions.create({
      model,
      messages,
      tools: [wireTool],
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    const calls: { id: string; name: string; args: string }[] = [];
    for await (const chunk of stream) {
      const delta = chunk.choices[0]?.delta;
      if (delta?.content) {
        text += delta.content;
        await hooks.onToken(delta.content);
      }
      for (const part of delta?.tool_calls ?? []) {
        const open = (calls[part.index] ??= { id: '', name: '', args: '' });
        open.id += part.id ?? '';
        open.name += part.function?.name ?? '';
        open.args += part.function?.arguments ?? '';
      }
    }
    if (calls.length === 0) return text;
    messages.push({
      role: 'assistant',
      content: text || null,
      tool_calls: calls.map(({ id, name, args }) => ({ id, type: 'function', function: { name, arguments: args } })),
    });
    for (const { id, args } of calls) {
      const { order } = JSON.parse(args) as { order: string };
      messages.push({ role: 'tool', tool_call_id: id, content: JSON.stringify(lookup(order)) });
    }
    await hooks.onStep?.(messages);
  }
}
