-- luamin #39, #42, #69 and others: parentheses around a literal
print(("x"):rep(3), ("%d"):format(7), ([[long]]):upper(), ("").len == string.len)
local s = ("a"):byte()
print(s, #("abc"), ({ 1, 2, 3 })[2], (function() return 5 end)())
