--[[ Counts runs among those that Redis keeps for the archive. One entry holds its end and its size, so that ten million of them
take as little as possible: the score is the end in seconds, times 2^21, plus its bytes.
KEYS[1] sorted set of runs  KEYS[2] bytes of all of them
ARGV[1] the present time in seconds  [2] most bytes of all  [3…] for each run its id, its end in seconds, its bytes
Both keys go with the last run.
Returns the runs that have to leave, oldest first, at most 100: they are counted until they have. The first write is one that Redis
refuses when memory is full. ]]
-- include kept-score
local change, lastEnd = 0, 0
for i = 3, #ARGV, 3 do
  local id, endS, bytes = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local before = redis.call('ZSCORE', KEYS[1], id)
  redis.call('ZADD', KEYS[1], scoreOf(endS, bytes), id)
  change = change + tonumber(bytes) - (before and bytesOf(before) or 0)
  lastEnd = math.max(lastEnd, tonumber(endS))
end
-- Redis has removed the bytes of these by itself.
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. scoreOf(ARGV[1], 0), 'WITHSCORES', 'LIMIT', 0, 100)
for i = 1, #over, 2 do
  change = change - bytesOf(over[i + 1])
  redis.call('ZREM', KEYS[1], over[i])
end
local used = redis.call('INCRBY', KEYS[2], change)

for _, key in ipairs(KEYS) do
  redis.call('EXPIREAT', key, lastEnd, 'NX')
  redis.call('EXPIREAT', key, lastEnd, 'GT')
end

local leaving, excess = {}, used - tonumber(ARGV[2])
if excess > 0 then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 99, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    if excess <= 0 then break end
    leaving[#leaving + 1] = oldest[i]
    excess = excess - bytesOf(oldest[i + 1])
  end
end
return leaving
