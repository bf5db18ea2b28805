import { speakHttp } from './over-http.ts';

// As `client-over-http.test.ts`, for what takes long.
speakHttp();
await import('../producer/client/follow/follow-run.test.ts');
await import('../producer/client/chat/chat-turn.test.ts');
await import('../producer/client/approvals.test.ts');
