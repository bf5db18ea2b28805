import { speakHttp } from './over-http.ts';

// The tests of the client over Redis, with the client over HTTP: both forms keep the same promises.
speakHttp();
await import('../producer/client/cancel.test.ts');
await import('../producer/client/decide.test.ts');
await import('../producer/client/find-run.test.ts');
await import('../producer/client/list-runs.test.ts');
await import('../producer/client/many-runs.test.ts');
await import('../producer/client/read-run.test.ts');
await import('../producer/client/redrive.test.ts');
await import('../producer/client/thread-messages.test.ts');
await import('../producer/client/tenants.test.ts');
await import('../producer/client/enqueue.test.ts');
await import('../producer/client/operator-views.test.ts');
