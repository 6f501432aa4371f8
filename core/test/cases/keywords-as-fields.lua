local t = { ["end"] = 1, ["and"] = 2 }
print(t["end"], t["and"], t.End, t.ending)
