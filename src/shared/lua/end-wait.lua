--[[ Shared fragment: queues a suspended run at its next segment, with the event that says so and ONE entry in its
journal, which takes up every decision about its calls that the journal does not have yet, in the very text of whoever decided.
What runs below that have ended cost is in the record from then on.
Calls that nobody decided about stay pending, and so do runs that have not ended; of those calls whose time is over it is kept
that they expired.
endWait(segment, last number in the record, epoch, resumes, pending) reads KEYS and ARGV as resume.lua names them and
answers the segment, the number of the event and how many calls are left. ]]
local people = { approval = true, user_input = true, unknown_outcome = true }

local function endWait(segment, last, epoch, resumes, pending)
  local texts, decided = redis.call('LRANGE', KEYS[4], 0, -1), {}
  for _, text in ipairs(texts) do
    -- What a run said may be long: its id is in front of it.
    decided[string.match(text, '^{"kind":"child","id":"([^"]+)"') or cjson.decode(text).id] = true
  end
  local left, calls, expired = {}, 0, {}
  for _, text in ipairs(elements(pending)) do
    local item = cjson.decode(text)
    if people[item.kind] and not decided[item.id] then
      if item.expiresAt and item.expiresAt <= ARGV[3] then
        expired[#expired + 1] = item
      else
        left[#left + 1], calls = text, calls + 1
      end
    elseif item.kind == 'child' and not decided[item.id] then
      left[#left + 1] = text
    end
  end

  -- Delta flushes do not touch the record: the log itself knows the last number.
  local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
  local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(last)
  seq = append(KEYS[3], ARGV[6], ARGV[7], KEYS[7] or '', ARGV[8], ARGV[5], seq, {ARGV[4]})
  local entry = ARGV[9]
  if #texts > 0 then entry = string.sub(entry, 1, -2) .. ',"decisions":[' .. table.concat(texts, ',') .. ']}' end
  redis.call('RPUSH', KEYS[2], entry)
  addCosts(texts)
  local counted = redis.call('HGET', KEYS[6], 'counted')
  if counted then addCost(0 - tonumber(counted)) end
  redis.call('DEL', KEYS[4], KEYS[6])
  for _, item in ipairs(expired) do
    local known = redis.call('HGET', KEYS[5], item.id)
    local about = known and cjson.decode(known) or {}
    if known and (about.verdict or about.expiresAt ~= item.expiresAt) then
      -- About another call: models give ids to calls more than once.
      redis.call('HSET', KEYS[5], item.id .. '@' .. (about.resumes or resumes), known)
      about = {}
    end
    redis.call('HSET', KEYS[5], item.id, cjson.encode({ id = item.id, kind = item.kind, toolName = item.toolName,
      requestedAt = item.requestedAt, expiresAt = item.expiresAt, needed = item.approvers or 1, votes = about.votes,
      verdict = 'expired', at = ARGV[3], resumes = resumes }))
    redis.call('EXPIRE', KEYS[5], ARGV[10])
  end
  redis.call('HSET', KEYS[1], 'status', 'queued', 'segment', tonumber(segment) + 1, 'op', ARGV[1], 'owner', '', 'held', '0',
    'pending', '[' .. table.concat(left, ',') .. ']', 'updatedAt', ARGV[3], 'lastSequence', seq, 'resumedEpoch', epoch)
  redis.call('HINCRBY', KEYS[1], 'resumes', 1)
  return tonumber(segment) + 1, seq, calls
end
