--[[ Fragment of decide.lua: the vote of one person about one pending call.
vote(id, item, verdict, fingerprint, vote JSON, decision JSON, resumes, changes) answers what is known about the call from
now on, or nothing for a repeat; a reason and a detail when it is refused. What is to be written is added to
`changes`, as fields and values. Needs end-wait. ]]
local maxVotes = 50

local function suits(item, verdict)
  if item.kind == 'user_input' then return verdict ~= 'granted' end
  return verdict ~= 'answered' or item.kind == 'unknown_outcome' or item.mode == 'deferred'
end

-- Models use ids of calls more than once. What was decided before an earlier resumption was about another call; and a call with
-- another time to expire is another one.
local function isAnother(about, item, resumes)
  if about.verdict then return resumes > (about.resumes or resumes) end
  return about.expiresAt ~= item.expiresAt
end

local function vote(id, item, verdict, fingerprint, voteJson, decision, resumes, changes)
  local known = redis.call('HGET', KEYS[6], id)
  local about = recordOf(known)
  if about and item and isAnother(about, item, resumes) then
    changes[#changes + 1] = id .. '@' .. (about.resumes or resumes)
    changes[#changes + 1] = known
    about = nil
  end
  if about and about.verdict then
    if about.verdict == 'expired' then return nil, 'expired', about.expiresAt end
    if about.fingerprint == fingerprint then return nil end
    return nil, 'decided', known
  end
  if not item then return nil, 'not_pending', '' end
  if item.expiresAt and item.expiresAt <= ARGV[3] then return nil, 'expired', item.expiresAt end
  if not suits(item, verdict) then return nil, 'unsuitable', item.kind end
  local needed = item.approvers or 1
  if needed > 1 and ARGV[12] == '' then return nil, 'nameless', needed end

  about = about or { id = id, kind = item.kind, toolName = item.toolName, requestedAt = item.requestedAt,
    expiresAt = item.expiresAt, needed = needed, votes = {} }
  local latest = {}
  for _, earlier in ipairs(about.votes) do latest[earlier.by or ''] = earlier.fingerprint end
  if latest[ARGV[12]] == fingerprint then return nil end
  if #about.votes >= maxVotes and verdict ~= 'denied' then return nil, 'too_many', maxVotes end
  local mine = cjson.decode(voteJson)
  if needed > 1 then mine.decision = decision end
  about.votes[#about.votes + 1] = mine
  latest[ARGV[12]] = fingerprint

  local agreed = 0
  for _, print in pairs(latest) do
    if print == fingerprint then agreed = agreed + 1 end
  end
  if verdict == 'denied' or agreed >= needed then
    about.verdict, about.fingerprint, about.at, about.resumes = verdict, fingerprint, ARGV[3], resumes
  end
  changes[#changes + 1] = id
  changes[#changes + 1] = cjson.encode(about)
  return about
end

--[[ The decision with the names of the people whose last vote it is, in the order of their votes. ]]
local function withNames(about, decision)
  local names, latest = {}, {}
  for at, earlier in ipairs(about.votes) do latest[earlier.by or ''] = at end
  for at, earlier in ipairs(about.votes) do
    local counts = earlier.fingerprint == about.fingerprint and latest[earlier.by or ''] == at
    if counts and earlier.by then names[#names + 1] = earlier.by end
  end
  if #names == 0 then return decision end
  return '{"by":' .. cjson.encode(names) .. ',' .. string.sub(decision, 2)
end
