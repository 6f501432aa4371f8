-- Prometheus Weak and Medium drop trailing nils (measured)
local function count(...) return select("#", ...) end
print(nil)
print(count(nil), count(nil, nil), count(1, nil), count(table.unpack({ n = 3 }, 1, 3)))
local function back(...) return ..., nil end
print(count(back(1, 2)), count(back()), #{ n = nil })
