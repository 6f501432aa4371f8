-- luamin.js #27, StyLua #533, full-moon #232
local limit <const> = 10
local name<const>,other <const> = "n", "o"
local log = {}
do
  local handle <close> = setmetatable({}, { __close = function() log[#log + 1] = "closed" end })
  local n <const>, h <close> = limit, setmetatable({}, { __close = function(_, e) log[#log + 1] = tostring(e) end })
  log[#log + 1] = n + limit
end
local mask <const> =0xFF
print(limit, name, other, table.concat(log, ","), mask & limit)
print(pcall(function() local x <close> = setmetatable({}, { __close = function() print "out" end }) error("e", 0) end))
