--[[ Ends a stay of a batch that rests.
KEYS[1] record   ARGV[1] nonce of the stay
Returns 1; 0 when the stay is not the owner's any more; 2 when the batch does not rest, and the stay goes on. ]]
local stay, status = unpack(redis.call('HMGET', KEYS[1], 'stay', 'status'))
if stay ~= ARGV[1] then return 0 end
if status ~= 'paused' and status ~= 'quoted' then return 2 end
redis.call('HSET', KEYS[1], 'stay', '')
return 1
