--[[ Shared fragment: rollBack(field) removes what the lock owner of a thread has written after the number in this field of the
manifest and returns the number of the summary before. KEYS as in wait-queue.lua. Numbers of removed entries are not given again. ]]
local function rollBack(field)
  local from, summary = unpack(redis.call('HMGET', KEYS[1], field, 'lockedSummarySeq'), 1, 2)
  redis.call('HSET', KEYS[1], 'summarySeq', summary)
  repeat
    local found = redis.call('XRANGE', KEYS[3], '(' .. from .. '-0', '+', 'COUNT', 500)
    for _, entry in ipairs(found) do
      -- Fields of an entry: e and its JSON, then k and its key where there is one.
      if entry[2][4] then redis.call('HDEL', KEYS[5], entry[2][4]) end
      redis.call('XDEL', KEYS[3], entry[1])
    end
  until #found < 500
  return summary
end
