--[[ Adds attempts without a reservation to the cost counters of a tenant and day. Once per id, for ids of the last
ten minutes and at most the newest 10,000 of them.
KEYS[1] ids that were counted, by time  [2] cost counters   ARGV[1] now in ms  [2] seconds to keep the counters; then for
each attempt: id, how many counters, and each one's field and what it grows by
Returns how many attempts were new.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
local at, new = 3, 0
while at <= #ARGV do
  local last = at + 1 + 2 * tonumber(ARGV[at + 1])
  if redis.call('ZADD', KEYS[1], ARGV[1], ARGV[at]) == 1 then
    new = new + 1
    for i = at + 2, last, 2 do redis.call('HINCRBY', KEYS[2], ARGV[i], ARGV[i + 1]) end
  end
  at = last + 1
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] - 600000)
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -10001)
redis.call('EXPIRE', KEYS[1], 600)
redis.call('EXPIRE', KEYS[2], ARGV[2])
return new
