-- Compare decimal strings without turning them into doubles: nonces of NEAR exceed what %.14g prints.
local function below(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
