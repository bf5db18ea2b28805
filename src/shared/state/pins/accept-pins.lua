--[[ Accepts what a server says about tools now.
KEYS[1] hash of the server, as in check-pins.lua; 'a:' who accepted a tool and when
ARGV[1] who and when, as JSON  [2...] triples: tool, digest that is accepted or '' for any, what it belongs to or ''
Returns 0 when the server has no pins, else the tools that are accepted now, each named once. ]]
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local accepted = {}
for at = 2, #ARGV, 3 do
  local tool, digest, said = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if said == '' then said = redis.call('HGET', KEYS[1], 'c:' .. tool) or '' end
  local before = redis.call('HGET', KEYS[1], 'p:' .. tool) or ''
  if digest ~= '' and string.sub(before, 1, 64) == digest then
    accepted[#accepted + 1] = tool
  elseif said ~= '' and (digest == '' or string.sub(said, 1, 64) == digest) then
    redis.call('HSET', KEYS[1], 'p:' .. tool, said, 'a:' .. tool, ARGV[1])
    redis.call('HDEL', KEYS[1], 'c:' .. tool)
    accepted[#accepted + 1] = tool
  end
end
return accepted
