--[[ Shared fragment: what is known about the decisions on one call. Needs stored-json.
recordOf(json) returns it, with `votes` a list, or nil when nothing is known that can be read: then the call is decided again. ]]
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
