import { defineTool } from 'millrace/worker';
import { z } from 'zod';

const states = ['was delivered on Monday', 'is with the carrier', 'leaves the warehouse tomorrow'];

/** Put a query of your shop here. */
export const lookupOrder = defineTool({
  name: 'lookup_order',
  description: 'Finds an order by its number and says where it is.',
  inputSchema: z.object({ order: z.string().describe('The number of the order.') }),
  // `read` may run again after a crash. A tool that changes something is `once`, or `idempotent`.
  effect: 'read',
  execute({ order }) {
    const number = Number(order.replace(/\D/g, ''));
    return number > 0 ? `Order ${number} ${states[number % states.length]}.` : `There is no order ${order}.`;
  },
});
