-- A priority queue of coroutines: tasks that sleep, wake in order and pass values.

local Heap = {}
Heap.__index = Heap

function Heap.new(less)
  return setmetatable({ n = 0, less = less }, Heap)
end

function Heap:push(item)
  local i = self.n + 1
  self.n, self[i] = i, item
  while i > 1 and self.less(self[i], self[i // 2]) do
    self[i], self[i // 2] = self[i // 2], self[i]
    i = i // 2
  end
end

function Heap:pop()
  local top = self[1]
  self[1], self[self.n] = self[self.n], nil
  self.n = self.n - 1
  local i = 1
  while true do
    local smallest = i
    for child = 2 * i, 2 * i + 1 do
      if child <= self.n and self.less(self[child], self[smallest]) then
        smallest = child
      end
    end
    if smallest == i then
      return top
    end
    self[i], self[smallest] = self[smallest], self[i]
    i = smallest
  end
end

local now, serial = 0, 0
local queue = Heap.new(function(a, b)
  if a.at ~= b.at then
    return a.at < b.at
  end
  return a.serial < b.serial
end)

local function spawn(name, body, ...)
  serial = serial + 1
  queue:push { at = now, serial = serial, name = name, co = coroutine.create(body), args = table.pack(...) }
end

local function sleep(ticks)
  return coroutine.yield(ticks)
end

local function run()
  while queue.n > 0 do
    local task = queue:pop()
    now = task.at
    local ok, ticks = coroutine.resume(task.co, table.unpack(task.args, 1, task.args.n))
    if not ok then
      print(now, task.name, "failed", (tostring(ticks):gsub("^.-:%d+: ", "")))
    elseif coroutine.status(task.co) == "suspended" then
      serial = serial + 1
      task.at, task.serial, task.args = now + ticks, serial, table.pack(now)
      queue:push(task)
    else
      print(now, task.name, "done")
    end
  end
end

for i, name in ipairs { "fetch", "parse", "store" } do
  spawn(name, function(label, times)
    for round = 1, times do
      print(now, label, round)
      sleep(i * 2 + round % 2)
    end
  end, name:upper(), i + 1)
end
spawn("broken", function()
  sleep(5)
  error("no such table")
end)
run()
