-- darklua #291: "\x1f8" must not become "\318"
local s = "\x1f8" .. "\0019" .. "\1a" .. "\0" .. "1" .. "\x007" .. "\10\50"
print(#s, s:byte(1, -1))
print(("a\0b\0001"):byte(1, -1))
