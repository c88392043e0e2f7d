-- The intent's id, which ends the key of its record: `...:lane` and `...:r:<id>` begin alike.
local function id_of(record) return string.sub(record, #KEYS[1] - 1) end
