-- luamin #88, Howl #23: a semicolon that keeps two statements apart
local log = {}
local function f(x) log[#log + 1] = x return f end
local g = f;
(f)("a");
("x"):rep(2);
(f)"b"; (f){ }
f("c");(f)("d")
local h = function() end;
(f)("e")
local n = 1;
(f)("f")
local t = { 1 };
(f)("g")
local s = "s";
(f)("h")
repeat local done = true until done;
(f)("i")
do (f)("j") end;
(f)("k")
local unset;
(f)("l")
goto out;
do (f)("never") end
::out::;
(f)("m")
g = log[1];
(f)("n")
;;; ;
print(#log, log[1], log[#log], g)
