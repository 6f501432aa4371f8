-- stravant/LuaMinify #6, #7
local x, t = 3, { 1, 2, 3 }
print(-x ^ 2, (-x) ^ 2, 2 ^ -x, -(x ^ 2), -#t, #t - -1, not x == nil, not (x == nil))
