-- Prometheus Vmify #18
local a, b = 1, 2
print(a == b == true, a == b == false, (a < b) == true, not (a == b) == true, a ~= b ~= false)
