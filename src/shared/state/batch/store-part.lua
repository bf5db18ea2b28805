--[[ Records that the oldest lines of output are parts of a file now, and drops them.
KEYS[1] record  KEYS[2] list of lines of output  KEYS[3] list of parts
ARGV[1] nonce of the stay  [2] round  [3] field of the record with the bytes of the list  [4] lines  [5] their bytes  [6...] the parts, as JSON
Returns 1; 0 when the stay is not the owner's any more, or another round has begun: then nothing refers to them. ]]
local stay, round = unpack(redis.call('HMGET', KEYS[1], 'stay', 'round'))
if stay ~= ARGV[1] or round ~= ARGV[2] then return 0 end
-- A call whose reply was lost comes again.
if redis.call('LINDEX', KEYS[3], -1) == ARGV[#ARGV] then return 1 end
redis.call('LTRIM', KEYS[2], ARGV[4], -1)
redis.call('HINCRBY', KEYS[1], ARGV[3], -ARGV[5])
redis.call('RPUSH', KEYS[3], unpack(ARGV, 6))
return 1
