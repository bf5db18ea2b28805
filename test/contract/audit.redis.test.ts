import { auditContract } from './audit.ts';
import { redisWorld } from './redis-world.ts';

auditContract('Redis', () => redisWorld());
