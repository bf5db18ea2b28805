--[[ Ends the wait of a suspended run: queued at its next segment in the same queue, with the event about that.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, in a Cluster the run's own
KEYS[5] decisions that the journal does not have  KEYS[6] all decisions  KEYS[7] children that begin later
ARGV[1] nonce of this call  [2] the segment that it has to be at, '' for any  [3] ISO time  [4] run.resumed event
ARGV[5] event log length  [6] live channel  [7] firehose channel  [8] publish command  [9] journal entry
ARGV[10] seconds to keep the decisions of a run that has not ended
Returns {0} not suspended, or at another segment; {1, segment, last number, queue, kind, calls that are still pending}
queued, now or by this very call before.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include ../../append-events
-- include ../../stored-json
-- include waiting-for
-- include ../../money/child-costs
-- include end-wait
local run = redis.call('HMGET', KEYS[1], 'status', 'segment', 'op', 'lastSequence', 'queue', 'kind', 'epoch', 'pending',
  'resumes')
local status, segment, op, last, queue, kind, epoch, pending, resumes = unpack(run, 1, 9)
if not status then return {0} end
if op == ARGV[1] then return {1, tonumber(segment), tonumber(last), queue, kind, #waitingFor(pending)} end
if status ~= 'suspended' or (ARGV[2] ~= '' and ARGV[2] ~= segment) then return {0} end

local following, seq, left = endWait(segment, last, epoch, tonumber(resumes or 0), waitingFor(pending))
return {1, following, seq, queue, kind, left}
