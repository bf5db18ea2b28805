import { batchesContract } from './batches.ts';
import { redisBatchesWorld } from './batches-redis-world.ts';

batchesContract('Redis', () => redisBatchesWorld());
