--[[ Runs are no longer among those that Redis keeps for the archive.
KEYS[1] sorted set of runs  KEYS[2] bytes of all of them   ARGV run ids
Returns nothing. ]]
-- include kept-score
for _, runId in ipairs(ARGV) do
  local score = redis.call('ZSCORE', KEYS[1], runId)
  if score then
    redis.call('ZREM', KEYS[1], runId)
    redis.call('DECRBY', KEYS[2], bytesOf(score))
  end
end
