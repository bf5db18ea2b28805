--[[ Adds money to an account that has a cap.
KEYS[1] account  KEYS[2] runs that wait for it
ARGV[1] microcents  [2] field that remembers this top-up, '' for none  [3] seconds to keep the account at least
ARGV[4] 1 when the account has a cap that is not written in it, else 0
Returns {0} no cap, {1, fields as they are now, number of waiting runs, 1 added or 0 by the same top-up before}.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
if ARGV[4] == '0' and redis.call('HEXISTS', KEYS[1], 'cap') == 0 then return {0} end
local isNew = ARGV[2] == '' or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0
if isNew then
  redis.call('HINCRBY', KEYS[1], 'extra', ARGV[1])
  if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], ARGV[2], ARGV[1]) end
  if redis.call('TTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
end
return {1, redis.call('HGETALL', KEYS[1]), redis.call('ZCARD', KEYS[2]), isNew and 1 or 0}
