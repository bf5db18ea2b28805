--[[ Ends a batch whose files are made. What only an open batch needs goes, the rest in time.
KEYS[1] record  KEYS[2] bits of the lines that were begun  KEYS[3] bits of failed lines  KEYS[4] hash of what failed lines have cost
KEYS[5...] what goes
ARGV[1] nonce of the stay  [2] round  [3] status after  [4] when the rest goes, in seconds since the epoch  [5...] fields and values, in turn
Returns 1; 0 when the stay is not the owner's any more, or the batch does not end. ]]
local stay, status, round = unpack(redis.call('HMGET', KEYS[1], 'stay', 'status', 'round'))
if stay ~= ARGV[1] or round ~= ARGV[2] then return 0 end
if status ~= 'finalizing' and status ~= 'cancelling' and ARGV[3] ~= 'failed' then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[3], 'stay', '', 'waitingForMoney', 0, 'waitingForPeople', 0, unpack(ARGV, 5))
redis.call('HDEL', KEYS[1], 'baseFileId', 'oldErrorFileId')
redis.call('UNLINK', unpack(KEYS, 5))
for at = 1, 4 do redis.call('EXPIREAT', KEYS[at], ARGV[4]) end
return 1
