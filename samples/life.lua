#!/usr/bin/env lua5.4
-- Conway's Game of Life on a torus, printed for a few generations.

local WIDTH <const>, HEIGHT <const> = 16, 8

-- A generation is a set of living cells: cells[y][x] is true or nil.
local function empty()
  local cells = {}
  for y = 1, HEIGHT do
    cells[y] = {}
  end
  return cells
end

local function neighbours(cells, x, y)
  local count = 0
  for dy = -1, 1 do
    for dx = -1, 1 do
      if (dx ~= 0 or dy ~= 0) and cells[(y + dy - 1) % HEIGHT + 1][(x + dx - 1) % WIDTH + 1] then
        count = count + 1
      end
    end
  end
  return count
end

local function step(cells)
  local nextgen = empty()
  for y = 1, HEIGHT do
    for x = 1, WIDTH do
      local n = neighbours(cells, x, y)
      nextgen[y][x] = (n == 3 or (n == 2 and cells[y][x])) or nil
    end
  end
  return nextgen
end

local function show(cells, generation)
  print(("generation %d"):format(generation))
  for y = 1, HEIGHT do
    local line = {}
    for x = 1, WIDTH do
      line[x] = cells[y][x] and "#" or "."
    end
    print(table.concat(line))
  end
end

-- A glider and a blinker.
local cells = empty()
for _, at in ipairs { { 2, 1 }, { 3, 2 }, { 1, 3 }, { 2, 3 }, { 3, 3 }, { 10, 4 }, { 11, 4 }, { 12, 4 } } do
  local x, y = table.unpack(at)
  cells[y][x] = true
end

for generation = 0, 4 do
  show(cells, generation)
  cells = step(cells)
end
