import { examples, type AddCommand, type Cli } from './cli.ts';
import { become } from './stack/child.ts';

export const addProducer: AddCommand = (program, act) => {
  program
    .command('producer')
    .description('Run one producer process: HTTP, event streams, console. Settings come from the environment.')
    .addHelpText('after', examples('REDIS_URL=redis://redis:6379 PORT=8080 millrace producer'))
    .action(act((cli: Cli) => become(cli, 'producer')));
};

export const addWorker: AddCommand = (program, act) => {
  program
    .command('worker')
    .description('Run one worker process. Settings come from the environment.')
    .addHelpText(
      'after',
      examples('REDIS_URL=redis://redis:6379 MILLRACE_AGENTS=./agents OPENAI_API_KEY=… millrace worker'),
    )
    .action(act((cli: Cli) => become(cli, 'worker')));
};
