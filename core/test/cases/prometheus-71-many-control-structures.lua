-- Prometheus #71: code that "randomly stops"
local out = {}
for i = 1, 20 do
  if i % 15 == 0 then out[i] = "fb" elseif i % 3 == 0 then out[i] = "f" elseif i % 5 == 0 then out[i] = "b" else
    local n, steps = i, 0
    while n ~= 1 do
      if n % 2 == 0 then n = n // 2 else n = 3 * n + 1 end
      steps = steps + 1
      repeat if steps > 100 then break end until true
    end
    out[i] = steps
  end
end
print(table.concat(out, " "))
