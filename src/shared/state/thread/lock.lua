--[[ Shared fragment: the lock and the wait queue of a thread.
KEYS[1] manifest  [2] wait queue  [3] log  [4] runs that left, by time  [5] numbers of entries kept once per key
[6] writes of the lock owner, by operation id  [7] events, which only its removal touches  [8] number of the last claim of each
run that has come to acquire the lock and has not left
lockFor(run, seq, summary, from) makes a run the lock owner ('' for none): what it writes begins after seq, and `from` is the
run that released the lock to it.
The field `endedRun` names a lock owner that has written how its turn ended: it is not cancelled or rolled back for others any more.
join(run, agent, thread, time, onBusy) gives a run the lock or a position unless it has one, and makes the thread when there is none.
Returns {0, agent} of another agent; {2} it has the lock; {3, lock owner, runs before it, 1 when the lock owner has to be
cancelled for it} it waits; {4, lock owner} it may not wait; {5, lock owner} the same, and the lock owner is suspended. ]]
local function lockFor(run, seq, summary, from)
  redis.call('HSET', KEYS[1], 'lockOwner', run, 'lockedFromSeq', seq, 'lockedSummarySeq', summary, 'suspendedBy', '', 'rollback', '',
    'interrupted', '', 'releasedBy', from, 'endedRun', '')
  if run ~= '' then redis.call('DEL', KEYS[6]) end
end

local function join(run, agent, thread, at, onBusy)
  local state = redis.call('HMGET', KEYS[1], 'agentId', 'lockOwner', 'seq', 'summarySeq', 'suspendedBy', 'interrupted',
    'arrivals', 'endedRun')
  local owner, lockOwner, seq, summary, suspended, interrupted, arrivals, endedRun = unpack(state, 1, 8)
  if not owner then
    redis.call('HSET', KEYS[1], 'v', 1, 'threadId', thread, 'agentId', agent, 'createdAt', at, 'updatedAt', at,
      'lockOwner', '', 'fence', 0, 'arrivals', 0, 'seq', 0, 'summarySeq', 0)
    owner, lockOwner, seq, summary = agent, '', 0, 0
  end
  if owner ~= agent then return {0, owner} end
  if lockOwner == '' then lockFor(run, seq, summary, '') end
  if lockOwner == '' or lockOwner == run then return {2} end

  local ahead = onBusy == 'interrupt' or onBusy == 'rollback'
  if not redis.call('ZSCORE', KEYS[2], run) then
    if onBusy == 'reject' then return {suspended == '' and 4 or 5, lockOwner} end
    if ahead then
      local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
      redis.call('ZADD', KEYS[2], first[2] and tonumber(first[2]) - 1 or arrivals, run)
      if endedRun ~= lockOwner then
        redis.call('HSET', KEYS[1], 'interrupted', lockOwner)
        if onBusy == 'rollback' then redis.call('HSET', KEYS[1], 'rollback', lockOwner) end
        interrupted = lockOwner
      end
    else
      redis.call('ZADD', KEYS[2], redis.call('HINCRBY', KEYS[1], 'arrivals', 1), run)
    end
  end
  -- Sent again, it must not hit a run that came between.
  return {3, lockOwner, redis.call('ZRANK', KEYS[2], run) + 1, ahead and interrupted == lockOwner and 1 or 0}
end
