import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resultOf, type Played } from './cast.ts';
import { stepsOf, type Playable, type ScenarioTool } from './scenario.ts';

interface Asked {
  readonly id?: number;
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly arguments?: unknown };
}

/** The MCP servers of all scenarios, over HTTP: `/<scenario>/<agent>/<server>`. They outlive every worker. */
export class ScenarioServers implements AsyncDisposable {
  readonly #scenarios: ReadonlyMap<string, Playable>;
  readonly #record: (played: Played) => void;
  readonly #server: Server;

  private constructor(scenarios: readonly Playable[], record: (played: Played) => void) {
    this.#scenarios = new Map(scenarios.map((scenario) => [scenario.id, scenario]));
    this.#record = record;
    this.#server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      request.on('end', () => {
        const asked = body === '' ? {} : (JSON.parse(body) as Asked);
        if (asked.id === undefined) return response.writeHead(request.method === 'POST' ? 202 : 405).end();
        const [, scenario = '', agent = '', server = ''] = (request.url ?? '').split('/');
        const answer = this.#answer(asked, { scenario, agent, server });
        response.writeHead(200, { 'content-type': 'application/json' });
        return response.end(JSON.stringify({ jsonrpc: '2.0', id: asked.id, ...answer }));
      });
    });
  }

  static async start(scenarios: readonly Playable[], record: (played: Played) => void): Promise<ScenarioServers> {
    const servers = new ScenarioServers(scenarios, record);
    servers.#server.listen(0, '127.0.0.1');
    await once(servers.#server, 'listening');
    return servers;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #answer({ method, params }: Asked, place: { scenario: string; agent: string; server: string }): object {
    const scenario = this.#scenarios.get(place.scenario);
    const agent = scenario?.agents.find(({ id }) => id === place.agent);
    if (!scenario || !agent) return { error: { code: -32_602, message: 'no such server' } };
    const tools = agent.tools.filter(({ server }) => server === place.server);
    switch (method) {
      case 'initialize': {
        const serverInfo = { name: place.server, version: '1' };
        return { result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo } };
      }
      case 'tools/list':
        return { result: { tools: tools.map(listed) } };
      case 'tools/call': {
        const { name = '', arguments: args = {} } = params ?? {};
        this.#record({ scenario: scenario.id, agent: agent.id, tool: name, args });
        const calls = stepsOf(scenario, agent).flatMap((step) => ('calls' in step ? step.calls : []));
        const value = resultOf(calls, name, args);
        const text = typeof value === 'string' ? value : JSON.stringify(value);
        return { result: { content: [{ type: 'text', text }] } };
      }
      default:
        return { error: { code: -32_601, message: 'no such method' } };
    }
  }
}

function listed({ name, description, parameters }: ScenarioTool): object {
  return { name, description: description ?? `Does ${name}.`, inputSchema: parameters };
}
