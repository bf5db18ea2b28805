import { z } from 'zod';
import { serverPins } from '../../../shared/contract/mcp-pins.ts';
import { acceptedPins, acceptPinsRequest } from '../../client/mcp-pins.ts';
import type { App } from '../app.ts';
import { errors, route } from '../openapi.ts';

const listRoute = route('read', {
  operationId: 'listMcpPins',
  summary: 'List the pins of MCP servers',
  description:
    'Servers whose definition has `pin`, the last used first, at most 200: what each of their tools was at the first use, and what the server says instead since then. Descriptions and schemas are cut, and without secrets. Pins are kept for 90 days after the last use of their server.',
  response: { 200: z.object({ servers: z.array(serverPins) }), ...errors },
});

const acceptRoute = route('approve', {
  operationId: 'acceptMcpPins',
  summary: 'Accept what an MCP server has changed',
  description:
    'Runs of the own tenant use the tools as the server describes them now, from their next step on. Without `tool` every change is accepted that is listed. Accepted again it changes nothing. Who accepts is the API key.',
  params: z.object({ server: z.string().describe('Id of the server, or its name where only one has it.') }),
  body: acceptPinsRequest,
  response: { 200: acceptedPins, ...errors },
});

export function mcpPinRoutes(app: App): void {
  app.get('/v1/mcp/pins', listRoute, async ({ mill }) => ({ servers: [...(await mill.mcpPins.list())] }));
  app.post(
    '/v1/mcp/pins/:server/accept',
    acceptRoute,
    async ({ mill, params, body, caller }) => await mill.mcpPins.accept(params.server, body, { by: caller }),
  );
}
