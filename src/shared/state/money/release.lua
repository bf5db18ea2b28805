--[[ Releases the reservation of an attempt that was never sent. Once per id.
KEYS, ARGV begin as in accounts; then ARGV[1] id, counted from the end of that front
Returns runs whose money is there.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include accounts
-- include wait-queue
-- include book
local id = ARGV[lastArg + 1]
local taken = {}
local reservation = openReservation(id)
if not reservation then return taken end
book(reservation, 0, 0)
finish(id, reservation.given, 0, '=')
keepAccounts()
for i = 1, accounts do takeFitting(i, taken) end
return taken
