local a = 1
local a = a + 1
do local a = a * 10; print(a) do local b = a; local a = b + 1 print(a, b) end end
local function f(a, a) return a end
print(a, f(1, 2))
local x, x = 3, 4
print(x)
for a = a, 3 do local a = a .. "!" print(a) end
local function outer() local c = a return function() local a = c + 1 return a, c end end
print(outer()())
local function recursive(n) if n == 0 then return 0 end return n + recursive(n - 1) end
local fixed = function(n) return recursive end
print(recursive(4), fixed() == recursive)
