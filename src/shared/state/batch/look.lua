--[[ The owner of a stay looks at its batch, and says what its open lines wait for.
KEYS[1] record   ARGV[1] nonce of the stay  [2] lines that wait for money  [3] for people
Returns the record, or 0 when the stay is not the owner's any more. ]]
if redis.call('HGET', KEYS[1], 'stay') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'waitingForMoney', ARGV[2], 'waitingForPeople', ARGV[3])
return redis.call('HGETALL', KEYS[1])
