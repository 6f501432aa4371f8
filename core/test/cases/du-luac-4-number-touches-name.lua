-- DU-LuaC #4: `1.` glued to a name; `1 ..2` is the same family
local b, c = {}, 2
b.c = 1. b.d = c-1. b.e = .5 b.f = 0x1p4
print(b.c, b.d, b.e, b.f, 1 ..2, 1. .. 2, 0xA ..1, c ..1, c.. .5, (c)..1)
if c == 2. then print "then" end
for i = 1,2. do print(i) end
local function v(...) return 1 .. ... end
print(v "x", select("#", ...))
