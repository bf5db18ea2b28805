--[[ Adds an entry that a run has left to the audit stream of its tenant, unless it is there already.
KEYS[1] audit stream  KEYS[2] entries that have come from this run
ARGV[1] id of the entry in the stream of the run  [2] the entry  [3] seconds to remember that it came
Returns 1 added, 0 it was there. ]]
-- include add-entry
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 0 end
addEntry(KEYS[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
