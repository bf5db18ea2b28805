import { speakHttp } from './over-http.ts';

// The tests of commands, in a shell that has MILLRACE_URL and no Redis.
speakHttp();
await import('../producer/cli/run.long.test.ts');
await import('../producer/cli/runs.test.ts');
await import('../producer/cli/decide.test.ts');
await import('../producer/cli/dialect.test.ts');
await import('../producer/cli/flows.test.ts');
await import('../producer/cli/money.test.ts');
await import('../producer/cli/threads.test.ts');
await import('../producer/cli/unknown-agent.test.ts');
