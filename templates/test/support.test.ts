import { assertCalls, assertCompleted, calls, testAgent } from 'millrace/testing';
import { test } from 'vitest';
import support from '../agents/support.ts';

test('an order is looked up before the answer', async () => {
  // What the model says, step by step: the test needs no key and no network.
  const agent = testAgent(support, {
    model: [calls('lookup_order', { order: '7' }), 'Order 7 is with the carrier.'],
  });
  const run = await agent.run('Where is order 7?');
  assertCalls(run, [{ name: 'lookup_order', args: { order: '7' } }]);
  assertCompleted(run, /carrier/);
});
