--[[ Adds what someone did to the audit stream of a tenant.
KEYS[1] audit stream  ARGV[1] the entry ]]
-- include add-entry
addEntry(KEYS[1], ARGV[1])
