local function v(...) local a, b = ... return select("#", ...), a, b, ... end
print(v()) print(v(nil)) print(v(1, nil, nil))
local function w(a, ...) return (select("#", ...)), { ... }, a end
print((w(1, 2, 3)), #select(2, w(1, 2, 3)))
print(select("#", ...), ... == nil)
