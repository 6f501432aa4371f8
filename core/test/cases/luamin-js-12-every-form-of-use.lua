-- luamin.js #12: compound forms missed by a renamer
local value, object = 1, { inner = { deep = {} } }
object.inner.deep[value] = value
object[value], object["v" .. value] = value, value
function object.inner.set(value) object.value = value return value end
function object:method(...) local value = ... return self, value end
for value = value, value + 1 do object[#object + 1] = value end
for value, index in pairs({ 5 }) do object.pair = value + index end
print(object.inner.deep[1], object.v1, #object, object.inner.set(9), object.value, object.pair, value)
print((select(2, object:method(value))), ({ value = value }).value, ({ [value] = value })[value], -value, #{ value, value })
