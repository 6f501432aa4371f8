-- Prometheus #77: what looks like an escape inside a long string
local pattern = [[\d+\n\x41 "quoted" 'single' \]]
print(#pattern, pattern, [==[]]]=]]==], [=[a]]=], [==[x]=]==])
print([[
first newline is skipped]], #[[

]], [[a
b
c
d
e
f]])
