-- Prometheus #64
local function level1(a)
  return function(b) return function(c) return function(d) a = a + 1 return a, b, c, d end end end
end
local f = level1(1)(2)(3)
print(f(4)) print(f(5))
