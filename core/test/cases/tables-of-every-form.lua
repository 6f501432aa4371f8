local k, f = "key", function() return 1, 2, 3 end
local t = { 1, 2; 3, a = 1, ["b c"] = 2, [k] = 3, [1.5] = 4, [-1] = 5, f(), f(), }
print(#t, t.a, t["b c"], t.key, t[1.5], t[-1], t[4], t[7])
local u = { f(), nil; } local v = { (f()), f(); }
print(#u, #v, #{ ... }, #{ n = 1 }, #{ [1] = "x" }, next({}) == nil, #{ f(); })
