-- darklua #23: parentheses dropped when printing
local a, b, c = 7, 3, 2
print((a + b) * c, a + b * c, a - (b - c), a - b - c, (a // b) // c, a // (b // c))
print((a .. b) .. c, a .. (b .. c), (a ^ b) ^ c, a ^ b ^ c, -a ^ c, (-a) ^ c)
print(not (a == b), not a == b, (a < b) == (b < c), a == b == true, (a == b) == true)
print((a and b) or c, a and (b or c), not (a and b), (a or b) and c)
