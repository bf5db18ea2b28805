--[[ Replaces the reservation of an attempt by its cost. Once per id. One that was written off in the meantime is corrected;
one without a reservation is counted all the same.
KEYS, ARGV begin as in accounts; then, counted from the end of that front:
KEYS[1] cost counters of the day   ARGV[1] id  [2] cost  [3] 1: it may have cost more, all that was reserved counts
  [4] cost source  [5] field of what calls of this model cost beyond their reservation  [6] seconds to keep the counters
  [7] what the answer should have cost, '' unknown;
  then fields of the cost counters, each followed by what it grows by
Returns {excess that was learnt now or 0, runs whose money is there}.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include accounts
-- include wait-queue
-- include book
local id, cost, unknown, source, excess, keep, expected = unpack(ARGV, lastArg + 1)
local costs = KEYS[lastKey + 1]
cost = tonumber(cost)
local open, finished = openReservation(id), finishedReservation(id)
local reservation = open or finished or { reserved = 0, given = 0, unconfirmed = 0, window = ARGV[2] }
if finished and finished.final then return { 0, {} } end

local unconfirmed = 0
if unknown == '1' then unconfirmed = math.max(0, math.max(reservation.reserved, reservation.unconfirmed) - cost) end
for at = lastArg + 8, #ARGV, 2 do redis.call('HINCRBY', costs, ARGV[at], ARGV[at + 1]) end
local guessed = unconfirmed - reservation.unconfirmed
if guessed ~= 0 then redis.call('HINCRBY', costs, 'unconfirmedMicrocents ' .. source, guessed) end
redis.call('EXPIRE', costs, keep)
book(reservation, cost + guessed, guessed)
finish(id, reservation.given, 0, '=')

local learnt = 0
local estimated = open and math.min(open.given, tonumber(expected) or open.given)
if open and cost > estimated then
  local over = cost - estimated
  for i = 1, accounts do
    if over > number(redis.call('HGET', accountKey(i), excess)) then
      redis.call('HSET', accountKey(i), excess, over)
      learnt = over
    end
  end
end
keepAccounts()
local taken = {}
for i = 1, accounts do takeFitting(i, taken) end
return { learnt, taken }
