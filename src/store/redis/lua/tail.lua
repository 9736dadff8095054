
if operation == 'x' then
  for i = 1, #KEYS do call('DEL', KEYS[i]) end
  return pack('<dd', 0, now)
end
if #KEYS == 1 then
  local granted, a, b, c = decide(KEYS[1], ARGV[3], operation == 't')
  return pack('<dddddd', healed, now, granted, a, b, c)
end
-- All or nothing: every key is asked before any is charged. No key comes twice.
local answers, refused = {}, false
for i = 1, #KEYS do
  local granted, a, b, c = decide(KEYS[i], ARGV[i + 2], false)
  answers[i], refused = pack('<dddd', granted, a, b, c), refused or granted < 0
end
local met = healed -- charging meets the same keys again
if operation == 't' and not refused then
  for i = 1, #KEYS do decide(KEYS[i], ARGV[i + 2], true) end
end
return pack('<dd', met, now) .. table.concat(answers)
