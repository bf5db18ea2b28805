--[[ Begins lines: each is open from now on, until its outcome is taken.
KEYS[1] record  KEYS[2] bits of the lines that were begun  KEYS[3] open lines
ARGV[1] nonce of the stay  [2...] pairs: place of the line in the file, what is known of it as JSON
Returns for each line 1 when it is open, now or since before; 0 when it has its outcome; 2 when as many are open as may be. Or one
number in place of the list: 0 when the stay is not the owner's any more, 2 when no line may be begun now. ]]
local stay, status, most = unpack(redis.call('HMGET', KEYS[1], 'stay', 'status', 'maxOpen'))
if stay ~= ARGV[1] then return 0 end
if status == 'paused' or status == 'quoted' or status == 'validating' then return 2 end
local room = tonumber(most) - redis.call('HLEN', KEYS[3])
-- A batch that ends begins its last lines only to say that they were not run.
if status == 'finalizing' or status == 'cancelling' then room = #ARGV end
local answers = {}
for at = 2, #ARGV, 2 do
  local place = ARGV[at]
  local answer = 1
  if redis.call('GETBIT', KEYS[2], place) == 1 then answer = redis.call('HEXISTS', KEYS[3], place)
  elseif room <= 0 then answer = 2
  else
    room = room - 1
    redis.call('SETBIT', KEYS[2], place, 1)
    redis.call('HSET', KEYS[3], place, ARGV[at + 1])
  end
  answers[#answers + 1] = answer
end
return answers
