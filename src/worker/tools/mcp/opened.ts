import type { OpenedTools } from '../source.ts';
import type { Tool } from '../tool.ts';
import type { ServerGrant } from '../names.ts';
import { maxEagerTools } from './limits.ts';
import type { ListedTool } from './list.ts';
import type { OfferedByServer } from './server-pins.ts';
import { mcpTool, type RunServer } from './tool.ts';

export interface OpenedServer extends RunServer {
  readonly grant: ServerGrant;
  /** Releases it. Never rejects. */
  release(): Promise<void>;
}

interface Made {
  readonly offered: OfferedByServer;
  readonly tool: Tool;
  readonly deferLoading: boolean;
}

/** The tools of the servers of one run. The order stays, what is new comes last. */
export function openedTools(servers: readonly OpenedServer[]): OpenedTools {
  let made = new Map<string, Made>();
  let lists: readonly unknown[] = [];
  let tools: readonly Tool[] = [];
  let closing: Promise<void> | undefined;
  const renew = (): void => {
    const now = new Map<string, Made>();
    for (const server of servers) {
      const granted = offeredBy(server).filter(({ listed }) => isGranted(listed, server.grant));
      const defers = granted.length > maxEagerTools;
      for (const offered of granted) {
        const key = `${server.name}/${offered.listed.name}`;
        const known = made.get(key);
        // A tool that the model has seen is not taken from it because others came.
        const deferLoading = known?.deferLoading ?? defers;
        now.set(
          key,
          known?.offered === offered ? known : { offered, deferLoading, tool: mcpTool(offered, server, deferLoading) },
        );
      }
    }
    const order = new Set([...made.keys(), ...now.keys()].filter((key) => now.has(key)));
    made = new Map([...order].map((key) => [key, now.get(key) as Made]));
    tools = [...made.values()].map(({ tool }) => tool);
  };
  const readers = servers.filter(({ connection }) => connection.hasResources).map(({ resources }) => resources.reader);
  return {
    tools() {
      const current = servers.map(({ connection, pins }) => (pins ? pins.offered : connection.tools));
      if (current.length !== lists.length || current.some((list, index) => list !== lists[index])) {
        lists = current;
        renew();
      }
      return tools;
    },
    resultReaders: [...new Set(readers)],
    async [Symbol.asyncDispose]() {
      closing ??= Promise.all(servers.map((server) => server.release())).then(() => {});
      await closing;
    },
  };
}

/** As they are now, or with pins as they were compared last. */
function offeredBy({ connection, pins }: OpenedServer): readonly OfferedByServer[] {
  return pins ? pins.offered : connection.tools.map((listed) => ({ listed }));
}

export function missingTools({ connection, grant }: Pick<OpenedServer, 'connection' | 'grant'>): string[] {
  if (grant === 'all') return [];
  return [...grant].filter((name) => !connection.tools.some((listed) => isNamed(listed, name)));
}

function isGranted(listed: ListedTool, grant: ServerGrant): boolean {
  return grant === 'all' || [...grant].some((name) => isNamed(listed, name));
}

function isNamed({ name, safeName }: ListedTool, granted: string): boolean {
  return granted === name || granted === safeName;
}
