-- Prometheus PR #218: ("").char, (0).x
debug.setmetatable(0, { __index = function(n, k) return k .. n end })
print((0).x, (1.5).y, ("").char == string.char, (-3).z)
