--[[ Keeps the bytes of a blob; all blobs of its owner stay until then at least.
KEYS[1] blobs of the owner   ARGV[1] name  [2] bytes  [3] end in milliseconds since the epoch
Returns nothing. In one script, so that nothing stays for ever when the process that writes dies in between. ]]
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIREAT', KEYS[1], ARGV[3], 'NX')
redis.call('PEXPIREAT', KEYS[1], ARGV[3], 'GT')
