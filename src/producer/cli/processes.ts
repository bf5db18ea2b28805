import { examples } from './cli.ts';
import { command } from './options/command.ts';
import { become } from './stack/child.ts';

export const addProducer = command('producer', {
  description: 'Run one producer process: HTTP, event streams, console. Settings come from the environment.',
  help: examples('REDIS_URL=redis://redis:6379 PORT=8080 millrace producer'),
  work: (cli) => become(cli, 'producer'),
});

export const addWorker = command('worker', {
  description: 'Run one worker process. Settings come from the environment.',
  help: examples('REDIS_URL=redis://redis:6379 MILLRACE_AGENTS=./agents OPENAI_API_KEY=… millrace worker'),
  work: (cli) => become(cli, 'worker'),
});
