-- luamin #81
local marked = "marked"
print(marked)
