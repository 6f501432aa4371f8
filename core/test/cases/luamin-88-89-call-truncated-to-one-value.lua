-- luamin #88, #89; Prometheus Weak and Medium lose it too (measured)
local function many() return 1, 2, 3 end
local function count(...) return select("#", ...) end
print((many()), many(), (many()))
print(count(many()), count((many())), count(many(), many()), count(many(), (many())))
local t, u = { many(), many() }, { (many()) }
print(#t, #u, count(table.unpack(t)), count((...)), count(...))
local function pass(...) return (...) end
print(count(pass(1, 2)), (pass(7, 8)))
