import { filesContract } from './files.ts';
import { redisFilesWorld } from './files-redis-world.ts';

filesContract('Redis', () => redisFilesWorld());
