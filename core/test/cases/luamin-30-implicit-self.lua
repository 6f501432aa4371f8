-- luamin #30: implicit self must stay; an explicit one is a name like any other
local Account = { balance = 0 }
Account.__index = Account
function Account:deposit(amount) self.balance = self.balance + amount return self end
function Account.new(self) return setmetatable({ balance = self or 0 }, Account) end
function Account:nested()
  local outer = self
  local helper = { name = "inner" }
  function helper:get() return self.name, outer.balance end
  return helper:get()
end
function Account:shadow() local self = { balance = "shadow" } return self.balance end
function Account:parameter(self) return self end
local a = Account.new(5):deposit(10)
print(a.balance, a:nested()) print(a:shadow(), a:parameter("given"), self)
