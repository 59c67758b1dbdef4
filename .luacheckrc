-- Redis runs these scripts in Lua 5.1 with its own libraries.
std = "lua51"
-- How long a line may be is for its reader to say.
max_line_length = false
read_globals = { "redis", "cjson", "cmsgpack", "struct", "bit", "KEYS", "ARGV" }

-- The careful path of `put` is included behind its fast one, whose locals its parameters shadow.
files["target/lua/put.lua"] = { ignore = { "431" } }
