import { consoleSessionsContract } from './console-sessions.ts';

consoleSessionsContract('Redis', () => undefined);
