-- hercules #24, #67: renaming by text replacement
count = 1
local counter, count_down = 10, 20
local function print_count(count) return count, counter, _G.count, count_down end
print(print_count(5))
local t = { count = "field", counter = "field too" }
print(t.count, t["counter"], count, counter, "counter")
local print = print
print(print == _G.print)
local function string() return ("string"):upper() end
print(string(), _G.string.format("%s", "s"))
