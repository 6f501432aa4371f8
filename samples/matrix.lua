-- Matrices with operators, exact determinant over integers, and a memoised
-- recursion with several upvalues.

local Matrix = {}
Matrix.__index = Matrix

local function matrix(rows)
  return setmetatable(rows, Matrix)
end

function Matrix.__mul(a, b)
  local out = {}
  for i = 1, #a do
    out[i] = {}
    for j = 1, #b[1] do
      local sum = 0
      for k = 1, #b do
        sum = sum + a[i][k] * b[k][j]
      end
      out[i][j] = sum
    end
  end
  return matrix(out)
end

function Matrix.__eq(a, b)
  for i = 1, #a do
    for j = 1, #a[1] do
      if a[i][j] ~= b[i][j] then
        return false
      end
    end
  end
  return true
end

function Matrix:__tostring()
  local lines = {}
  for i, row in ipairs(self) do
    lines[i] = "| " .. table.concat(row, " ") .. " |"
  end
  return table.concat(lines, "\n")
end

-- Bareiss: division is exact at every step.
function Matrix:determinant()
  local m, n, sign, last = {}, #self, 1, 1
  for i = 1, n do
    m[i] = table.move(self[i], 1, n, 1, {})
  end
  for k = 1, n - 1 do
    if m[k][k] == 0 then
      local swap
      for i = k + 1, n do
        if m[i][k] ~= 0 then
          swap = i
          break
        end
      end
      if not swap then
        return 0
      end
      m[k], m[swap], sign = m[swap], m[k], -sign
    end
    for i = k + 1, n do
      for j = k + 1, n do
        m[i][j] = (m[i][j] * m[k][k] - m[i][k] * m[k][j]) // last
      end
    end
    last = m[k][k]
  end
  return sign * m[n][n]
end

local a = matrix { { 2, -1, 0 }, { 1, 3, 5 }, { 0, 4, -2 } }
local b = matrix { { 1, 0, 2 }, { 0, 1, 0 }, { 3, 0, 1 } }
print(a * b)
print(a:determinant(), b:determinant(), (a * b):determinant() == a:determinant() * b:determinant())
print(a * b == b * a, a == matrix { { 2, -1, 0 }, { 1, 3, 5 }, { 0, 4, -2 } })

local calls, memo = 0, {}
local function binomial(n, k)
  if k == 0 or k == n then
    return 1
  end
  local key = n << 8 | k
  if not memo[key] then
    calls = calls + 1
    memo[key] = binomial(n - 1, k - 1) + binomial(n - 1, k)
  end
  return memo[key]
end
print(binomial(40, 20), calls)
