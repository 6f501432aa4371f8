--[[ long
comment ]] local a = 1 --[==[ with ]] inside ]==] local b --[[]]= 2 -- short
--[ not long
--[=x not long either
--[==
print(a, b) --]] end
---[[ two dashes and a bracket
print("kept")
--]]
-- the last line has no end