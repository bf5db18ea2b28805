--[[ Counts open reservations of a run as spent, and takes the run out of the wait queues.
KEYS, ARGV begin as in accounts; then, counted from the end of that front:
KEYS[1] cost counters of the day   ARGV[1] run  [2] seconds to keep the counters
Returns runs whose money is there.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include accounts
-- include wait-queue
-- include book
local run, keep = unpack(ARGV, lastArg + 1)
local costs = KEYS[lastKey + 1]
for _, field in ipairs(redis.call('HKEYS', accountKey(1))) do
  local id = string.match(field, '^r:(.*)$')
  if id then
    local reservation = openReservation(id)
    if reservation.reserved > 0 then
      redis.call('HINCRBY', costs, 'unconfirmedMicrocents ' .. reservation.source, reservation.reserved)
      redis.call('EXPIRE', costs, keep)
    end
    local window = book(reservation, reservation.reserved, reservation.reserved)
    finish(id, reservation.given, reservation.reserved, window)
  end
end
keepAccounts()
local taken = {}
for i = 1, accounts do
  leaveQueue(i, run)
  takeFitting(i, taken)
end
return taken
