import { redisWorld } from './redis-world.ts';
import { runStoreContract } from './run-store.ts';

runStoreContract('Redis', () => redisWorld());
