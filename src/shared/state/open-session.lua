--[[ Opens a session of the console, and closes those of the same key that are over and the oldest beyond the most that it may have.
KEYS[1] sessions of an API key, a sorted set by their end in milliseconds
ARGV[1] session  ARGV[2] now in milliseconds  ARGV[3] seconds that it lasts  ARGV[4] sessions that a key may have ]]
redis.call('ZADD', KEYS[1], ARGV[2] + ARGV[3] * 1000, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -ARGV[4] - 1)
redis.call('EXPIRE', KEYS[1], ARGV[3])
