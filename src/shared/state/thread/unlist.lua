--[[ Removes a member from a sorted set, unless it was added again since its score was read.
KEYS[1] sorted set
ARGV[1] member  [2] the score that was read
Returns 1 when it is gone, else 0. ]]
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
