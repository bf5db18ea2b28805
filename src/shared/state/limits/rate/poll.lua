--[[ Renews the waiters of one process and its grants.
KEYS as in state   ARGV[1] to [4] as in ask  [5] number of waiters; then for each: waiter, grant id;
then ids of grants whose lease is renewed
Returns ms to the next look, then for each waiter what ask would return, or {4} when it is not known here. ]]
-- include ../../in-parts
-- include state
-- include window
-- include wait-queue
-- include grant
-- include schedule
begin()
configure(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))
open_window()
local waiting, ids, grant_ids = tonumber(ARGV[5]), {}, {}
for i = 1, waiting do ids[i], grant_ids[i] = ARGV[4 + 2 * i], ARGV[5 + 2 * i] end
local waiters = valuesOf(WAITERS, ids)
for i = 1, waiting do
  local w = waiters[i] and cmsgpack.unpack(waiters[i])
  waiters[i] = w and w.k == 'local' and w.g == grant_ids[i]
  if waiters[i] then redis.call('ZADD', SEATS, 'XX', now + seat_ms, ids[i]) end
end
for i = 6 + 2 * waiting, #ARGV do redis.call('ZADD', LEASES, 'XX', now + lease_ms, ARGV[i]) end
sweep()
local retry = dispatch()
local replies = { retry }
local grants = valuesOf(GRANTS, grant_ids)
for i = 1, waiting do
  replies[1 + i] = grants[i] and answer(ids[i], grant_ids[i], retry) or waiters[i] and { 2, retry } or { 4 }
end
save()
return replies
