--[[ Takes the runs out of the wait queue of one account whose money is there.
KEYS, ARGV begin as in accounts, with this one account; then, counted from the end of that front:
KEYS[1] set of accounts that runs wait for   ARGV[1] name of the account in that set
Returns the runs, oldest first. An empty queue takes the account out of the set. ]]
-- include accounts
-- include wait-queue
local taken = takeFitting(1, {})
if redis.call('EXISTS', KEYS[2]) == 0 then
  if promised(1) == 0 then redis.call('DEL', KEYS[3]) end
  redis.call('SREM', KEYS[lastKey + 1], ARGV[lastArg + 1])
end
return taken
