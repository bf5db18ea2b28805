--[[ Adds a run to the wait queue of one account, unless the money is there.
KEYS, ARGV begin as in accounts, with this one account; then, counted from the end of that front:
KEYS[1] set of accounts that runs wait for  [2] the run's own account   ARGV[1] run  [2] what it needs
  [3] its score in the queue  [4] name of the account in that set  [5] seconds to keep all of this
Returns 1 when the money is there, and 0.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include accounts
-- include wait-queue
local run, need, score, name, keep = unpack(ARGV, lastArg + 1)
local own = KEYS[lastKey + 2]
need = tonumber(need) + number(redis.call('HGET', own, 'margin'))
redis.call('HSET', KEYS[3], run, need)
redis.call('ZADD', KEYS[2], 'NX', score, run)
redis.call('ZREM', KEYS[4], run)
for _, fits in ipairs(fitting(1)) do
  if fits == run then
    promise(1, run)
    return 1
  end
end
redis.call('SADD', KEYS[lastKey + 1], name)
keepAccounts()
for _, key in ipairs({ KEYS[2], KEYS[3], KEYS[lastKey + 1], own }) do redis.call('EXPIRE', key, keep) end
return 0
