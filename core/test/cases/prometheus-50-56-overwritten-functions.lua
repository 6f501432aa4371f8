-- Prometheus #50, #56
local f = function() return "first" end
local g = f
f = function() return "second", g() end
local t = { f = f }
t.f, f = f, nil
print(t.f(), f, g())
