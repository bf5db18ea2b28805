import { ledgerContract } from './ledger.ts';
import { redisLedgerWorld } from './ledger-redis-world.ts';

ledgerContract('Redis', (tenants) => redisLedgerWorld(tenants));
