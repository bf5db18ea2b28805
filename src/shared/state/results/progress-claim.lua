--[[ Takes a number for a progress note.
KEYS[1] numbers  KEYS[2] notes
ARGV[1] role  [2] the wanted number, or '' for the next  [3] key of the write  [4] seconds to keep the numbers
ARGV[5] notes that a run may have  [6] highest number that was there before, '' when it is not known
Returns {'ok', number, the note or ''} (a note: this write was made before), or {'taken'}, {'full'}, or {'look'}: nothing is
known of this role yet, so find out what was there before. The first write is one that Redis refuses when memory is full. ]]
local role, wanted, key = ARGV[1], ARGV[2], ARGV[3]
local mine = redis.call('HGET', KEYS[1], 'k:' .. role .. ':' .. key)
if mine then return {'ok', tonumber(mine), redis.call('HGET', KEYS[2], role .. '.' .. mine) or ''} end
if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[5]) then return {'full'} end
local last = redis.call('HGET', KEYS[1], 'n:' .. role) or ARGV[6]
if last == '' then return {'look'} end
local before = tonumber(redis.call('HGET', KEYS[1], 'f:' .. role) or ARGV[6])
local seq = wanted == '' and tonumber(last) + 1 or tonumber(wanted)
local claim = 'c:' .. role .. '.' .. string.format('%d', seq)
if seq <= before or redis.call('HEXISTS', KEYS[1], claim) == 1 then return {'taken'} end
redis.call('HSET', KEYS[1], 'n:' .. role, math.max(tonumber(last), seq), 'f:' .. role, before, claim, key, 'k:' .. role .. ':' .. key, seq)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return {'ok', seq, ''}
