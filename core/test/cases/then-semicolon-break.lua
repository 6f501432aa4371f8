-- Lua compiles `then break` and `then ;break` to different instructions
while true do if true then break end end
while true do if true then ; break end end
while true do if true then ;; break; end end
while true do if nil then ; elseif true then ; break else ; end end
repeat if true then break end until false
print("left")
