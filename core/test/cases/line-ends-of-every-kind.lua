local a = 1
local b = 2local c = 3
print(a, b, c, #[[
x
yz
w]], "a\
b" == "a\nb", "\z 
 c")
