import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';

const sendMail = defineTool({
  name: 'send_mail',
  description: 'Sends.',
  inputSchema: z.object({
    to: z.array(z.object({ address: z.string(), name: z.string().optional() })),
    body: z.string(),
    headers: z.record(z.string(), z.string()).optional(),
    when: z.union([z.object({ day: z.string() }), z.object({ hour: z.number() })]).optional(),
  }),
  execute: () => 'sent',
});

function problemsOf(policy: object, more: Partial<AgentSource> = {}): string {
  try {
    loadedFrom(
      defineAgent({
        id: 'mailer',
        model: 'm',
        tools: [sendMail],
        dataFlowPolicy: { mode: 'enforce', ...policy },
        ...more,
      }),
    );
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

const rule = { from: ['user'] };
const about = (path: string) => ({ tools: { send_mail: { arguments: { [path]: rule } } } });

test.each([
  [
    'a tool that the agent does not have',
    { tools: { send_mial: { sink: true } } },
    'there is no tool send_mial; did you mean send_mail?',
  ],
  [
    'a declassified tool that it does not have',
    { declassifySinks: ['sendmail'] },
    'there is no tool sendmail; did you mean send_mail?',
  ],
  ['a server that it is not granted', { tools: { 'mcp:post/send': {} } }, 'the agent is granted no MCP server post'],
  [
    'an argument that the tool does not have',
    about('boddy'),
    'arguments.boddy: there is no argument boddy; did you mean body?',
  ],
  ['one below an argument', about('to.adress'), 'there is no argument adress; did you mean address?'],
  ['one below a text', about('body.text'), 'there is no argument text; known are none'],
])('%s is refused, with what was probably meant', (_what, policy, expected) => {
  expect(problemsOf(policy)).toContain(expected);
});

test('an argument that the agent sets itself needs no rule', () => {
  const toolOptions = { send_mail: { args: { body: 'fixed' } } };
  expect(problemsOf(about('body'), { toolOptions })).toContain('the agent sets body itself');
});

test.each(['to', 'to.address', 'body', 'headers.x', 'when.day', 'when.hour'])('the argument %s is known', (path) => {
  expect(problemsOf(about(path))).toBe('');
});

test('tools of servers that the agent is granted, of agents and of handoffs are known, as far as they can be', () => {
  const mcpServers = { post: { url: 'https://post.example/mcp' } };
  const more = {
    tools: [sendMail, 'mcp:post'],
    mcpServers,
    agentTools: { ask_lawyer: { agent: 'lawyer' } },
    handoffs: ['boss'],
  } as unknown as Partial<AgentSource>;
  const tools = {
    'mcp:post/anything': { arguments: { whatever: rule } },
    ask_lawyer: { sink: true },
    transfer_to_boss: {},
    ask_agent: {},
  };
  expect(problemsOf({ tools }, more)).toBe('');
});
