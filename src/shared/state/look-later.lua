--[[ Sets when members are checked again, unless another time was set since.
KEYS[1] sorted set   ARGV for each: the member, the time that it was found under, the next time
Returns nothing. ]]
for i = 1, #ARGV, 3 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('ZADD', KEYS[1], ARGV[i + 2], ARGV[i]) end
end
