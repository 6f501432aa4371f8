-- neostarfall #31
local ten = 10
print(10^-2, ten^-2, ten ^ - - 2, 2^-1 * 4, -2^-2)
