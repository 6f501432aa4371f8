-- picotool #56, Prometheus #151, #211: label renamed on one side only
for i = 1, 3 do
  for j = 1, 3 do
    if j == 2 then goto continue end
    if i == 3 then goto done end
    print(i, j)
    ::continue::
  end
end
::done::
do
  local n = 0
  ::top:: n = n + 1
  if n < 3 then goto top end
  print(n)
end
do goto skip; local unused; ::skip:: end
do ::a:: ::b:: ; ::c:: end
local function f() goto same; do ::other:: end ::same:: return "same" end
print(f())
do local continue = "a name, not a label" goto continue do print "never" end ::continue:: end
