import { Socket } from 'node:net';
import { compileEngine } from './engine.ts';
import { FrameReader, frameOf, maxHostFrameBytes, type HostMessage } from './protocol.ts';
import type { ProcessMessage } from './process.ts';
import { ScriptRun, type ScriptPort } from './script-run.ts';

// A process that runs scripts, one after the other. It is started without an environment and may read nothing but its
// own code. Its one connection to anything is the pipe to the worker that started it, and it ends with that pipe.

const channelFd = 3;
const parentId = process.ppid;

function main(): void {
  // Ctrl-C reaches the whole group, and the worker wants to finish what runs.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => {});
  // The engine asks for the host's time zone: the same script shall give the same dates wherever it runs.
  // oxlint-disable-next-line no-extend-native -- in this process only the engine reads it
  Object.defineProperty(Date.prototype, 'getTimezoneOffset', { value: () => 0 });
  const engine = compileEngine();
  const channel = new Socket({ fd: channelFd });
  const reader = new FrameReader(maxHostFrameBytes);
  const send = (message: ProcessMessage) => void channel.write(frameOf(JSON.stringify(message)));
  let running: ScriptRun | undefined;
  const port: ScriptPort = {
    call: (id, name, args) => send({ t: 'call', id, name, args }),
    done(outcome, logs, isSpent) {
      running = undefined;
      send({ t: 'done', outcome, logs: [...logs], isSpent });
    },
    // While a script computes, the end of the pipe is not noticed.
    pulse: () => void (process.ppid === parentId || process.exit(1)),
  };
  channel.on('data', (chunk) => {
    for (const text of reader.push(chunk)) {
      const message = messageIn(text);
      if (message.t === 'result') running?.settle(message.id, message.result);
      else if (running) throw new Error('there is a script running');
      else {
        running = new ScriptRun(message, port);
        void running.start(engine);
      }
    }
  });
  for (const end of ['end', 'error', 'close'] as const) channel.on(end, () => process.exit(0));
  send({ t: 'ready' });
}

/** The worker is trusted: this only catches a version of it that speaks otherwise. */
function messageIn(text: string): HostMessage {
  const message = JSON.parse(text) as HostMessage;
  const isRun = message.t === 'run' && typeof message.source === 'string' && Array.isArray(message.tools);
  const isResult = message.t === 'result' && Number.isInteger(message.id) && typeof message.result?.ok === 'boolean';
  if (!isRun && !isResult) throw new Error('an unknown message');
  return message;
}

main();
