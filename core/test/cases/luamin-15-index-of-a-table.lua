-- luamin #15
print(({ "a", "b" })[1], ({ n = 3 }).n, #({ 1, 2 }), ({ f = function(self) return self.n end, n = 9 }):f())
