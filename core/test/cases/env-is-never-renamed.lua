local print, tostring = print, tostring
local function sandbox(code) local _ENV = { x = "inside" } return x, code end
print(sandbox(1))
local function param(_ENV) return y end
print(param({ y = "given" }), _ENV == _G)
do local _ENV <const> = { z = 3 } local w = z print(w) end
local saved = _ENV
local function up() return saved == _ENV end
print(up())
