import { connect, createServer, type Socket } from 'node:net';

/** A TCP proxy before a Redis that spoils connections on demand. It never drops bytes of a connection that goes on. */
export interface RedisProxy extends AsyncDisposable {
  readonly url: string;
  /** Connections open at this moment. */
  readonly connections: number;
  /** Resets every connection there is. New ones are accepted. */
  cut(): void;
  /** Keeps back what both sides send, until {@link release}: a network that swallows packets without a reset. */
  hold(): void;
  release(): void;
  /** Keeps back everything that clients send from the first bytes on that hold this text. Resolves when they have come. */
  holdBefore(text: string): Promise<void>;
  /** Swallows the next reply of Redis on any connection and resets that one. Resolves when it has happened. */
  dropRepliesOnce(): Promise<void>;
}

export async function startRedisProxy(targetUrl: string): Promise<RedisProxy> {
  const target = new URL(targetUrl);
  const sockets = new Map<Socket, Socket>();
  let held = false;
  let drop: (() => void) | undefined;
  let trap: { readonly text: string; readonly sprung: () => void } | undefined;

  const server = createServer((client) => {
    const redis = connect(Number(target.port), target.hostname);
    sockets.set(client, redis);
    const end = () => {
      sockets.delete(client);
      client.resetAndDestroy();
      redis.destroy();
    };
    for (const socket of [client, redis]) {
      socket.setNoDelay(true);
      socket.on('error', end).on('close', end);
      if (held) socket.pause();
    }
    client.on('data', (bytes) => {
      if (trap && bytes.includes(trap.text)) {
        hold();
        client.unshift(bytes);
        trap.sprung();
        trap = undefined;
      } else redis.write(bytes);
    });
    redis.on('data', (bytes) => {
      const dropped = drop;
      drop = undefined;
      if (dropped) end();
      else client.write(bytes);
      dropped?.();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };

  const everySocket = () => [...sockets].flat();
  const hold = () => {
    held = true;
    for (const socket of everySocket()) socket.pause();
  };
  const cut = () => {
    for (const [client, redis] of sockets) {
      client.resetAndDestroy();
      redis.destroy();
    }
    sockets.clear();
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    get connections() {
      return sockets.size;
    },
    cut,
    hold,
    holdBefore: (text) => new Promise((resolve) => (trap = { text, sprung: resolve })),
    release() {
      held = false;
      for (const socket of everySocket()) socket.resume();
    },
    dropRepliesOnce: () => new Promise((resolve) => (drop = resolve)),
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      cut();
      await closed;
    },
  };
}
