-- full-moon #348, darklua #322
local s = "one \z
           two\z three \
four\
"
print(#s, s, "\z", "a\z   b", "\z
")
