--[[ Counts a run among those that Redis keeps for the archive. One entry holds its end and its size, so that ten million of them
take as little as possible: the score is the end in seconds, times 2^21, plus its bytes.
KEYS[1] sorted set of runs  KEYS[2] bytes of all of them
ARGV[1] run id  [2] its end in seconds  [3] its bytes  [4] the present time in seconds  [5] most bytes of all
Both keys go with the last run.
Returns the runs that have to leave, oldest first, at most 100: they are counted until they have. The first write is one that Redis
refuses when memory is full. ]]
-- include kept-score
local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], scoreOf(ARGV[2], ARGV[3]), ARGV[1])
local change = tonumber(ARGV[3]) - (before and bytesOf(before) or 0)
-- Redis has removed the bytes of these by itself.
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. scoreOf(ARGV[4], 0), 'WITHSCORES', 'LIMIT', 0, 100)
for i = 1, #over, 2 do
  change = change - bytesOf(over[i + 1])
  redis.call('ZREM', KEYS[1], over[i])
end
local used = redis.call('INCRBY', KEYS[2], change)

for _, key in ipairs(KEYS) do
  redis.call('EXPIREAT', key, ARGV[2], 'NX')
  redis.call('EXPIREAT', key, ARGV[2], 'GT')
end

local leaving, excess = {}, used - tonumber(ARGV[5])
if excess > 0 then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 99, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    if excess <= 0 then break end
    leaving[#leaving + 1] = oldest[i]
    excess = excess - bytesOf(oldest[i + 1])
  end
end
return leaving
