-- Records to text and back: escapes, numbers of both kinds, nested tables, and a
-- small parser with goto. Every trap here once broke somebody's minifier.

local escapes = { ["\n"] = "\\n", ["\t"] = "\\t", ["\0"] = "\\0", ['"'] = '\\"', ["\\"] = "\\\\", ["\x1f"] = "\\031" }

local function quote(s)
  return '"' .. s:gsub('[%c"\\]', escapes) .. '"'
end

local function sorted(t)
  local keys = {}
  for k in pairs(t) do
    keys[#keys + 1] = k
  end
  table.sort(keys, function(a, b)
    return tostring(a) < tostring(b)
  end)
  local i = 0
  return function()
    i = i + 1
    return keys[i], t[keys[i]]
  end
end

local function dump(value, depth)
  depth = depth or 0
  local kind = math.type(value) or type(value)
  if kind == "string" then
    return quote(value)
  elseif kind == "float" then
    return string.format("%.17g", value) .. "f"
  elseif kind == "table" then
    local out = {}
    for k, v in sorted(value) do
      out[#out + 1] = ("  "):rep(depth + 1) .. "[" .. dump(k) .. "] = " .. dump(v, depth + 1)
    end
    return "{\n" .. table.concat(out, ",\n") .. "\n" .. ("  "):rep(depth) .. "}"
  end
  return tostring(value)
end

local record = {
  id = 0xff, ratio = 1.0, huge = 1e308, tiny = -0.0, whole = 9223372036854775807,
  wraps = 0xffffffffffffffff, text = "caf\u{e9} \x1f8 \z
                                      joined", raw = [==[
first line is skipped ]] not the end]==],
  ["not a name"] = true, [1] = { "nested", { deep = - -1 } },
}
print(dump(record))
print(1 / record.tiny, 7 // 2, -7 // 2, 7 % -3, 2 ^ 10, 7 // 2.0, 1 .. 2)

-- Words and numbers, by goto.
local function tokens(source)
  local list, at = {}, 1
  ::again::
  at = source:find("%S", at)
  if not at then
    goto done
  end
  do
    local from, to = source:find("^%d+", at)
    if from then
      list[#list + 1] = math.tointeger(source:sub(from, to))
      at = to + 1
      goto again
    end
    from, to = source:find("^%a+", at)
    list[#list + 1] = from and source:sub(from, to):upper() or source:sub(at, at)
    at = (to or at) + 1
  end
  goto again
  ::done::
  return list
end

print(table.concat(tokens("sum = 12 + 30 ; print sum"), " "))
local function three() return 1, 2, 3 end
print((three()), select("#", three()), select("#", (three())), #{ three(), three() }, #{ (three()), three() })

-- To-be-closed variables run their handler in order.
do
  local function closing(label)
    return setmetatable({}, { __close = function() print("closed " .. label) end })
  end
  local first <close> = closing("first")
  local second <close> = closing("second")
  print("body")
end
