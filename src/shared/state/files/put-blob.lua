--[[ Keeps the bytes of blobs; all blobs of their owners stay until then at least.
For each, KEYS blobs of the owner, and ARGV name, bytes, end in milliseconds since the epoch
Returns nothing. In one script, so that nothing stays for ever when the process that writes dies in between. ]]
for i, key in ipairs(KEYS) do
  local name, bytes, untilMs = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  redis.call('HSET', key, name, bytes)
  redis.call('PEXPIREAT', key, untilMs, 'NX')
  redis.call('PEXPIREAT', key, untilMs, 'GT')
end
