#!/usr/bin/lua
local both = 1
print(both)
