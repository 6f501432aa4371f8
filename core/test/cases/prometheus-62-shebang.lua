#!/usr/bin/env lua5.4 -W
-- Prometheus fails on main.lua and all.lua (measured)
local first = "ran"
print(first)
