-- Prometheus #92
local log = {}
local function note(x) log[#log + 1] = x return x end
local function take(...) return table.concat({ ... }, "-") end
print(take(note("a"), note("b"), take(note("c"), note("d")), note("e")), table.concat(log))
