import { examples, type AddCommand, type Cli } from './cli.ts';
import { become } from './stack/become.ts';

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
