local log = ""
local function t(x) log = log .. x return #log end
local r = t("a") + t("b") * t("c") - -t("d") .. t("e")
local s = t("f") < t("g") and t("h") or t("i")
print(r, s, log)
