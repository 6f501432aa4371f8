-- py-lua-parser #33, hercules #53, Prometheus #185
local a, b, c = 0xF0, 0x3C, 3
print(a | b & c, (a | b) & c, a ~ b & c, (a ~ b) & c, a << 2 | b, a << (2 | b & 1))
print(a & b == b & a, a >> 1 + 1, (a >> 1) + 1, ~a & 0xFF, ~(a & 0xFF), a ~ ~b)
print(1 .. 2 == "12", 5 // 2 * 2, 5 % 3 ^ 2)
