import { defineTool } from 'millrace/worker';
import { z } from 'zod';

/** Stands in for a shop's payments. It waits for a person, who may change the amount. */
export const refundOrder = defineTool({
  name: 'refund_order',
  description: 'Pays money back for an order.',
  inputSchema: z.object({
    order: z.string().describe('The number of the order.'),
    amount: z.number().min(0.01).max(500).describe('Euros to pay back.'),
  }),
  effect: 'once',
  needsApproval: true,
  execute({ order, amount }) {
    return `${amount.toFixed(2)} euros were paid back for order ${order}.`;
  },
});
