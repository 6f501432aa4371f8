local fs = {}
for i = 1, 3 do local j = i * 10 fs[i] = function() j = j + 1 return i, j end end
print(fs[1](), fs[2](), fs[3]()) print(fs[1]())
local i = 0
while i < 2 do i = i + 1 local k = i fs[i] = function() return k end end
print(fs[1](), fs[2]())
