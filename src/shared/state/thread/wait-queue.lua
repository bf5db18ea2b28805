--[[ Shared fragment: places in a thread.
KEYS[1] manifest  [2] line of waiting runs  [3] log  [4] runs that left, by time  [5] numbers of entries kept once per key
[6] writes of the holder, by operation id  [7] events, which only its removal touches  [8] number of the last claim of each
run that has come to take it up and has not left
give(run, seq, summary, from) makes a run the holder ('' for nobody): what it writes begins after seq, and `from` is the
run that made way for it.
The field `over` names a holder that has written how its turn ended: nothing is cancelled or taken back for others any more.
place(run, agent, thread, time, onBusy) gives a run a place unless it has one, and makes the thread when there is none.
Answers {0, agent} of another agent; {2} it holds the thread; {3, holder, runs before it, 1 when the holder has to be
cancelled for it} it waits; {4, holder} it may not wait; {5, holder} the same, and the holder is suspended. ]]
local function give(run, seq, summary, from)
  redis.call('HSET', KEYS[1], 'holder', run, 'heldFrom', seq, 'heldSummary', summary, 'suspendedBy', '', 'rollback', '',
    'interrupted', '', 'gaveWay', from, 'over', '')
  if run ~= '' then redis.call('DEL', KEYS[6]) end
end

local function place(run, agent, thread, at, onBusy)
  local state = redis.call('HMGET', KEYS[1], 'agentId', 'holder', 'seq', 'summarySeq', 'suspendedBy', 'interrupted',
    'arrivals', 'over')
  local owner, holder, seq, summary, suspended, interrupted, arrivals, over = unpack(state, 1, 8)
  if not owner then
    redis.call('HSET', KEYS[1], 'v', 1, 'threadId', thread, 'agentId', agent, 'createdAt', at, 'updatedAt', at,
      'holder', '', 'fence', 0, 'arrivals', 0, 'seq', 0, 'summarySeq', 0)
    owner, holder, seq, summary = agent, '', 0, 0
  end
  if owner ~= agent then return {0, owner} end
  if holder == '' then give(run, seq, summary, '') end
  if holder == '' or holder == run then return {2} end

  local ahead = onBusy == 'interrupt' or onBusy == 'rollback'
  if not redis.call('ZSCORE', KEYS[2], run) then
    if onBusy == 'reject' then return {suspended == '' and 4 or 5, holder} end
    if ahead then
      local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
      redis.call('ZADD', KEYS[2], first[2] and tonumber(first[2]) - 1 or arrivals, run)
      if over ~= holder then
        redis.call('HSET', KEYS[1], 'interrupted', holder)
        if onBusy == 'rollback' then redis.call('HSET', KEYS[1], 'rollback', holder) end
        interrupted = holder
      end
    else
      redis.call('ZADD', KEYS[2], redis.call('HINCRBY', KEYS[1], 'arrivals', 1), run)
    end
  end
  -- Sent again, it must not hit a run that came between.
  return {3, holder, redis.call('ZRANK', KEYS[2], run) + 1, ahead and interrupted == holder and 1 or 0}
end
