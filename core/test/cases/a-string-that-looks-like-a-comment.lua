print("--[[ not a comment", '-- nor this', [[-- nor --]].."that") local x = "a" --"b"
print(x)
