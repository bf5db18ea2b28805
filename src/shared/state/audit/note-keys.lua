--[[ Compares the API keys of a producer that starts with those that were known, and remembers them instead.
KEYS[1] hash of them  ARGV[1] seconds to remember them, then for each its name, and its tenant and scopes
Returns what has changed as a list of triples: added, removed or changed, the name, and tenant and scopes, those before of one that is
removed. ]]
local known, now, changes = {}, {}, {}
for i, text in ipairs(redis.call('HGETALL', KEYS[1])) do
  if i % 2 == 1 then known[#known + 1] = text else known[known[#known]] = text end
end
local function note(change, name, about)
  changes[#changes + 1] = {change, name, about}
end
for at = 2, #ARGV, 2 do
  local name, about = ARGV[at], ARGV[at + 1]
  now[name] = true
  if not known[name] then note('added', name, about)
  elseif known[name] ~= about then note('changed', name, about) end
  redis.call('HSET', KEYS[1], name, about)
end
for _, name in ipairs(known) do
  if not now[name] then
    note('removed', name, known[name])
    redis.call('HDEL', KEYS[1], name)
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return changes
