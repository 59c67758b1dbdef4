-- Redis runs these scripts in Lua 5.1 with its own libraries.
std = "lua51"
-- How long a line may be is for its reader to say.
max_line_length = false
read_globals = { "redis", "cjson", "cmsgpack", "struct", "bit", "KEYS", "ARGV" }

-- The careful paths of `ack` and `put` are included behind their fast ones, whose locals their own locals and parameters shadow.
files["target/lua/ack.lua"] = { ignore = { "431" } }
files["target/lua/put.lua"] = { ignore = { "431" } }
