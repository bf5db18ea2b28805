--[[ Shared fragment: queues a suspended run at its next segment, with the event about that and ONE entry in its journal, which
has every decision about its calls that the journal does not have yet, in the very text of the person who decided. The cost
of children that have ended is in the record from then on.
Calls without a decision stay pending, and so do children that have not ended; a call that is past its time is recorded as
expired.
endWait(segment, last number in the record, epoch, resumes, items) reads KEYS and ARGV as resume.lua names them and
returns the segment, the number of the event and how many calls are left. `items` are what waitingFor returns. All that is stored
is read before anything is written, and no damaged text keeps the wait from its end. Needs waiting-for and child-costs. ]]

-- What is known about the decisions on one call, with `votes` a list; nil when nothing is known that can be read: then the call
-- is decided again.
local recordFields = { expiresAt = 'string', verdict = 'string', fingerprint = 'string', at = 'string', resumes = 'number' }

local function recordOf(json)
  local about = decoded(json)
  if not about then return nil end
  for name, kind in pairs(recordFields) do
    if type(about[name]) ~= kind then about[name] = nil end
  end
  local votes = {}
  for _, vote in ipairs(type(about.votes) == 'table' and about.votes or {}) do
    if type(vote) == 'table' then votes[#votes + 1] = vote end
  end
  about.votes = votes
  return about
end

-- Decisions that the journal does not have: their texts, and the set of what they are about.
local function newDecisions()
  local texts, decided = {}, {}
  for _, text in ipairs(redis.call('LRANGE', KEYS[5], 0, -1)) do
    local id = childOf(text) or (decoded(text) or {}).id
    if type(id) == 'string' then
      texts[#texts + 1], decided[id] = text, true
    end
  end
  return texts, decided
end

-- Fields and values for the decisions of the run: this call expired.
local function expiredFields(item, resumes)
  local known = redis.call('HGET', KEYS[6], item.id)
  local about, fields = recordOf(known), {}
  if about and (about.verdict or about.expiresAt ~= item.expiresAt) then
    -- About another call: models use ids of calls more than once.
    fields = { item.id .. '@' .. (about.resumes or resumes), known }
    about = nil
  end
  local votes = about and #about.votes > 0 and about.votes or nil
  fields[#fields + 1] = item.id
  fields[#fields + 1] = cjson.encode({ id = item.id, kind = item.kind, toolName = item.toolName,
    requestedAt = item.requestedAt, expiresAt = item.expiresAt, needed = item.approvers or 1, votes = votes,
    verdict = 'expired', at = ARGV[3], resumes = resumes })
  return fields
end

local function endWait(segment, last, epoch, resumes, items)
  local texts, decided = newDecisions()
  local left, calls, expired = {}, 0, {}
  for _, item in ipairs(items) do
    local isCall = people[item.kind]
    if isCall and not decided[item.id] and item.expiresAt and item.expiresAt <= ARGV[3] then
      expired[#expired + 1] = expiredFields(item, resumes)
    elseif (isCall or item.kind == 'child') and not decided[item.id] then
      left[#left + 1] = item
      if isCall then calls = calls + 1 end
    end
  end

  -- Delta flushes do not touch the record: the log itself knows the last number.
  local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
  local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(last)
  local counted = tonumber(redis.call('HGET', KEYS[7], 'counted') or '')
  seq = append(KEYS[3], ARGV[6], ARGV[7], KEYS[4], ARGV[8], ARGV[5], seq, {ARGV[4]})
  local entry = ARGV[9]
  if #texts > 0 then entry = string.sub(entry, 1, -2) .. ',"decisions":[' .. table.concat(texts, ',') .. ']}' end
  redis.call('RPUSH', KEYS[2], entry)
  addChildCosts(texts)
  if counted then addChildCost(0 - counted) end
  redis.call('DEL', KEYS[5], KEYS[7])
  for _, fields in ipairs(expired) do
    redis.call('HSET', KEYS[6], unpack(fields))
    redis.call('EXPIRE', KEYS[6], ARGV[10])
  end
  redis.call('HSET', KEYS[1], 'status', 'queued', 'segment', tonumber(segment) + 1, 'op', ARGV[1], 'owner', '', 'held', '0',
    'pending', textsOf(left), 'updatedAt', ARGV[3], 'lastSequence', seq, 'resumedEpoch', epoch)
  redis.call('HINCRBY', KEYS[1], 'resumes', 1)
  return tonumber(segment) + 1, seq, calls
end
