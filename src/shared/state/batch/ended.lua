--[[ Shared fragment: has a batch of this status ended? ]]
local endedStatus = {completed = true, failed = true, expired = true, cancelled = true}
