
-- The fixed and the sliding window: the index of the window and what was spent in it; of a sliding one, in the one before as well.

local function window(key, question, commit)
  local letter, count, period, least, most = unpack('<c1dddd', question)
  local sliding = letter == 'w'
  local index = (now - now % period) / period
  local previous, current, known, counts, same_length = 0, 0, false, false, false
  local value = redis.pcall('GET', key)
  if value then
    local letter1, index1, period1, current1, previous1
    if #value == (sliding and 33 or 25) then
      letter1, index1, period1, current1, previous1 = unpack(sliding and '<c1dddd' or '<c1ddd', value)
    end
    if is_other(value, letter) then
      value = false
    elseif letter1 ~= letter or not (whole(current1) and whole(sliding and previous1 or 0)) then
      heal(key)
      value = false
    elseif period1 == period and (index1 == index or index1 == index + 1) then
      index, current, known = index1, current1, own_clock -- one ahead: the clock slipped back over an edge, and that window goes on
      if sliding then previous = previous1 end
      counts = true
    elseif period1 == period and index1 == index - 1 then
      if sliding then previous, counts = current1, true end
    elseif own_clock and (index1 + 2) * period1 + 3000000 < now then
      healed = healed + 1 -- it should have expired long ago
    end
    same_length = value and period1 == period
  end
  local into = now - index * period
  if into < 0 then into = 0 end
  local available = count - current
  if previous > 0 then
    local inside, rest = muldiv(previous, period - into, period)
    available = available - inside - (rest > 0 and 1 or 0)
  end

  local granted, spent = -1, current
  if gives_back then
    granted = 0
    -- A charge is undone in the window that it was made in: this one, the one before, or one that is gone.
    local since = operation == 'u' and floor(now / period) - floor(most / period) or 0
    if since == 0 then
      spent = current > least and current - least or 0
    elseif since == 1 and previous > 0 then
      previous, known = previous > least and previous - least or 0, false
    end
  elseif least <= available then
    granted = most < available and most or available
    if commit then spent = current + granted end
  end
  local left = (index + 1) * period - now
  if sliding and spent > 0 then left = left + period end
  if operation ~= 'p' and (spent ~= current or (gives_back and same_length)) then
    if known and current > 0 and spent > 0 then
      call('SETRANGE', key, 17, pack('<d', spent)) -- it expires with the window, which is the same
    elseif sliding then
      call('SET', key, pack('<c1dddd', 'w', index, period, spent, previous), 'PX', floor(left / 1000) + slack)
    else
      call('SET', key, pack('<c1ddd', 'f', index, period, spent), 'PX', floor(left / 1000) + slack)
    end
  elseif granted < 0 and value then
    keep(key, counts and left or 0, left)
  end
  return granted, index, previous, gives_back and spent or current
end
