-- darklua #18: `- -1` must not become a comment, nor `[ [[x]] ]` a long bracket
local one = 1
local t = { [ [[x]] ] = "found", [ [==[y]==] ] = 2 }
print(- -one, - - -one, 5 - -one, 5 - - -one, -(-one), t[ [[x]] ], t[ [==[y]==] ])
print(not not one, ~ ~one, - ~one, ~ -one)
