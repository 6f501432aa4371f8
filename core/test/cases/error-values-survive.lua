print(pcall(error, { code = 1 } and "plain", 0))
print(select("#", pcall(error)), (pcall(error, nil)))
print(pcall(function(a) return a end, "ok"))
os.exit(7, true)
