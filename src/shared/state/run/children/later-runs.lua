--[[ Shared fragment: a run that waits for several others as one group. KEYS[1] run  KEYS[7] the group, a hash:
`segment` in which the run waits, `first` 1 when the first answer ends that, `template` what later runs have in common,
`next` number of the one that begins next, from 0, and by their numbers what is their own, as JSON with `runId` and `agent`;
`counted` what those that have ended cost, which is in the record already;
`by:<id>` is the number of the one that began when <id> had ended. Needs waiting-for, and takes its items. ]]
-- Nil where every end of a child ends the wait.
local function groupOf(segment)
  local group = redis.call('HMGET', KEYS[7], 'segment', 'first', 'template', 'next')
  if group[1] ~= segment then return nil end
  return { first = group[2] == '1', template = group[3], next = tonumber(group[4]) }
end

-- The child that begins when `id` has ended: the same for each repeat. Nil when none is left, or what was kept of it cannot be read.
local function followerOf(group, id, isNew)
  local number = redis.call('HGET', KEYS[7], 'by:' .. id)
  if not number and not isNew then return nil end
  local own = redis.call('HGET', KEYS[7], number or group.next)
  local spec = decoded(own)
  if not spec or type(spec.runId) ~= 'string' then return nil end
  if not number then redis.call('HSET', KEYS[7], 'next', group.next + 1, 'by:' .. id, group.next) end
  return { own = own, id = spec.runId, agent = type(spec.agent) == 'string' and spec.agent or '' }
end

-- What a run waits for once `id` has ended and another one has begun.
local function withoutRun(items, id, following, at)
  local left = {}
  for _, item in ipairs(items) do
    if item.kind ~= 'child' or item.id ~= id then left[#left + 1] = item end
  end
  if following then
    local item = { kind = 'child', id = following.id, args = { agentId = following.agent }, requestedAt = at }
    left[#left + 1] = { kind = 'child', id = following.id, text = cjson.encode(item) }
  end
  return left
end

local function hasChildren(items)
  for _, item in ipairs(items) do
    if item.kind == 'child' then return true end
  end
  return false
end
