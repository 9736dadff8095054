
local function decide(key, question, commit)
  local letter = question:byte()
  if letter == 98 then return bucket(key, question, commit) end
  if letter == 108 then return log(key, question, commit) end
  return window(key, question, commit)
end
