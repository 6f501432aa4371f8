-- darklua #250: bytes >= 128 are bytes, never \u{80}
local s = "\x80\xff\200" .. "Ã©" .. "é" .. "\u{e9}\u{20ac}\u{1F600}\u{7FFFFFFF}\xC3\xA9\xED\xA0\x80"
print(#s, s:byte(1, -1))
print("ÐŸÑ€Ð¸Ð²ÐµÑ‚", 'ÿþ', [[ÿ raw]])
