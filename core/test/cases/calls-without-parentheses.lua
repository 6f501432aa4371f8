local function id(...) return ... end
print(id "s", id [[l]], id { 1 }[1], id"a" .. id'b', #id{ 1, 2, 3 })
local o = { m = function(self, x) return type(x) end }
print(o:m "s", o:m { }, o:m[[l]], o.m(o, 1), id(o):m"x")
print(id(id)(id)"chain", id{f = id}.f"y")
