local n = 0
repeat local done = n == 3; n = n + 1; local function check() return done end until check()
print(n)
local done = true
repeat local done = n > 5 n = n + 1 until done
print(n, done)
