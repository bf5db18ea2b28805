import { defineTool } from 'millrace/worker';
import { z } from 'zod';

const states = [
  'was packed today and leaves the warehouse tomorrow',
  'is with the carrier and arrives on Thursday',
  'was delivered on Monday',
  'waits for a part that comes in next week',
];

/** Stands in for a shop's database. */
export const lookupOrder = defineTool({
  name: 'lookup_order',
  description: 'Finds an order by its number and says where it is.',
  inputSchema: z.object({ order: z.string().describe('The number of the order.') }),
  effect: 'read',
  execute({ order }) {
    const number = Number(order.replace(/\D/g, ''));
    return number > 0 ? `Order ${number} ${states[number % states.length]}.` : `There is no order ${order}.`;
  },
});
