--[[ Lists a batch as one of its tenant's that have not ended.
KEYS[1] sorted set of those   ARGV[1] id  [2] milliseconds since the epoch  [3] how many there may be
Returns 1, or 0 when there are that many others. ]]
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 1 end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
