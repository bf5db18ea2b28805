--[[ What the files of a tenant take.
KEYS[1] unused  KEYS[2] ends  KEYS[3] bytes  KEYS[4…] lists of ids, all files and by purpose
ARGV[1] now in milliseconds
Returns their bytes together; files that have ended leave the lists first. ]]
-- include ended-files
return bytesUsed(ARGV[1])
