--[[ Sets when members are checked again, or removes them, unless another time was set since.
KEYS[1] sorted set   ARGV for each: the member, the time that it was found under, the next time, or '' to remove it
Returns nothing. ]]
for i = 1, #ARGV, 3 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    if ARGV[i + 2] == '' then redis.call('ZREM', KEYS[1], ARGV[i])
    else redis.call('ZADD', KEYS[1], ARGV[i + 2], ARGV[i]) end
  end
end
