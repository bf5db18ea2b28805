--[[ Sets the cap of an account; what was topped up stays.
KEYS[1] account  KEYS[2] runs that wait for it  KEYS[3] the tenant's accounts with a cap of their own
ARGV[1] cap in microcents  [2] what happens before a call that could pass it  [3] seconds to keep the account at least
[4] id of the account  [5] now in ms  [6] how many are listed at most
Returns {fields as they are now, number of waiting runs}. ]]
redis.call('HSET', KEYS[1], 'cap', ARGV[1], 'onExceed', ARGV[2])
if redis.call('TTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
redis.call('ZADD', KEYS[3], ARGV[5], ARGV[4])
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -tonumber(ARGV[6]) - 1)
redis.call('EXPIRE', KEYS[3], ARGV[3] * 2)
return {redis.call('HGETALL', KEYS[1]), redis.call('ZCARD', KEYS[2])}
