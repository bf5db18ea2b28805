import { childrenContract } from './children.ts';
import { redisChildrenWorld } from './children-redis-world.ts';

childrenContract('Redis', () => redisChildrenWorld());
