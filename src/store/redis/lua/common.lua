
-- What is not one of our values counts as absent.
local function heal(key)
  healed = healed + 1
  if operation ~= 'p' then call('DEL', key) end
end

-- A value of ours, by another algorithm than the one that is asked about: it counts as absent, and stays until it is written over. (A
-- list does not: it is no string.)
local function is_other(value, letter)
  local first = #value == 25 and 'f' or #value == 33 and value:sub(1, 1)
  return first and first ~= letter and (first == 'b' or first == 'f' or first == 'w') and value:sub(1, 1) == first
end

-- What may stand in a value. Others can write to the store, too: they may have left anything.
local function whole(number)
  return number >= 0 and number < 9007199254740992 and number % 1 == 0
end

-- A refusal writes nothing. A key without expiry would stay as it is, for ever; and one that expires in less than `needed` microseconds,
-- as by the caller's clock that has slipped back, would be forgotten too early.
local function keep(key, needed, microseconds)
  if operation == 'p' then return end
  local left = call('PTTL', key)
  if left >= needed / 1000 then return end
  if left == -1 then healed = healed + 1 end
  call('PEXPIRE', key, floor(microseconds / 1000) + slack + 1)
end
