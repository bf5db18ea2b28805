--[[ Moves a batch to its next status.
KEYS[1] record  KEYS[2] open lines  KEYS[3] bits of the lines that were begun
ARGV[1] nonce of the stay  [2] status before  [3] round  [4] status after  [5] '1': only when every line has its outcome
ARGV[6...] fields and values that change with it, in turn
Returns 1; 0 when the stay is not the owner's any more; 2 when the batch is not as it was. ]]
local stay, status, round, total = unpack(redis.call('HMGET', KEYS[1], 'stay', 'status', 'round', 'total'))
if stay ~= ARGV[1] then return 0 end
if status ~= ARGV[2] or round ~= ARGV[3] then return 2 end
if ARGV[5] == '1' then
  if redis.call('HLEN', KEYS[2]) > 0 or redis.call('BITCOUNT', KEYS[3]) < tonumber(total) then return 2 end
end
redis.call('HSET', KEYS[1], 'status', ARGV[4], unpack(ARGV, 6))
return 1
