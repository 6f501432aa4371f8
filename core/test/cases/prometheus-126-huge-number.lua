-- Prometheus #126: 1e309 printed as `inf`
local huge, tiny = 1e309, 5e-324
print(huge, -huge, 1e308 * 10, tiny > 0, 2^53, 0x7fffffffffffffff, 9223372036854775807, 9223372036854775808)
print(0xffffffffffffffff, 0xffffffffffffffffff, 0x.8p1, 0xA.8p0, 3., .3e1, 1E+2, 0X1P-2, 1//1, 1.0//1)
