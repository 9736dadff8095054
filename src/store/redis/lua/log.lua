
-- The sliding log: a list of (instant, cost, total of all costs up to this one, it included), oldest first.

local function log(key, question, commit)
  local count, period, least, most = unpack('<dddd', question, 2)
  local length, packed = redis.pcall('LLEN', key), ''
  if type(length) == 'number' and length > 0 then packed = call('LINDEX', key, -1) end
  if type(length) ~= 'number' or (length > 0 and #packed ~= 24) then
    heal(key)
    length = 0
  end
  local function entry(i)
    packed = call('LINDEX', key, i)
    if #packed == 24 then
      local instant, cost, total = unpack('<ddd', packed)
      if instant >= 0 and cost >= 0 and instant % 1 == 0 and cost % 1 == 0 and total % 1 == 0 then
        return instant, cost, total
      end
    end
    return 0, 0, 0 -- foreign, among ours
  end
  -- The first entry from `low` on for which `test` holds, as it does for all that follow it; `length` if there is none.
  local function first(low, test)
    local high = length
    while low < high do
      local middle = floor((low + high) / 2)
      if test(entry(middle)) then high = middle else low = middle + 1 end
    end
    return low
  end

  local live, before, used, newest, needed = 0, 0, 0, 0, 0
  if length > 0 then
    if entry(0) <= now - period then live = first(1, function(instant) return instant > now - period end) end
    if live < length then
      local _, cost, total = entry(live)
      local instant, _, last = entry(-1)
      before, used, newest = total - cost, last - total + cost, instant < now and instant or now
      if not (whole(before) and whole(used) and last < 4503599627370496) then
        heal(key)
        length, live, before, used, newest = 0, 0, 0, 0, 0
      elseif instant <= now then
        needed = instant + period - now -- one dated later than now would be put off without end
      end
    end
  end
  local function keep_for_newest()
    local instant = entry(-1)
    newest = instant < now and instant or now
    call('PEXPIRE', key, floor((newest + period - now) / 1000) + slack)
  end
  -- A charge is undone in the entry of its instant, or of the one before, to which a clock that was behind may have dated it back. What
  -- others have logged since stays as it is, but for the totals.
  local function undo()
    local at = first(live, function(instant) return instant > most end) - 1
    if at < live then return 0 end
    local _, cost = entry(at)
    local back = least < cost and least or cost
    if at == length - 1 and back == cost then
      call('RPOP', key)
      if at > live then keep_for_newest() end
      return back
    end
    for i = at, length - 1 do
      local instant, cost1, total = entry(i)
      call('LSET', key, i, pack('<ddd', instant, i == at and cost - back or cost1, total - back))
    end
    return back
  end

  local granted, wait = -1, 0
  local available = count - used
  if operation == 'u' then
    granted = undo()
  elseif gives_back then
    granted = least < used and least or used
  elseif least <= available then
    granted = most < available and most or available
  elseif least <= count then
    local over = before + used + least - count
    local instant = entry(first(live, function(_, _, total) return total >= over end))
    wait = (instant < now and instant or now) + period - now
    if wait < 1 then wait = 1 end -- by what is not ours
  end

  if granted > 0 and (operation == 'r' or (operation == 't' and commit)) then
    -- Entries dated later than now, by a clock that was set back, become one of now. What is given back is taken from the newest.
    if live > 0 then call('LTRIM', key, live, -1) end
    local kept, cost, total, back = length - live, 0, before + used, gives_back and granted or 0
    while kept > 0 do
      local instant, cost1 = entry(-1)
      if instant < now and back == 0 then break end
      call('RPOP', key)
      local given = back < cost1 and back or cost1
      kept, back, total, cost1 = kept - 1, back - given, total - given, cost1 - given
      if instant >= now then
        cost = cost + cost1
      elseif cost1 > 0 then
        call('RPUSH', key, pack('<ddd', instant, cost1, total))
        kept = kept + 1
      end
    end
    if operation == 't' then cost, total = cost + granted, total + granted end
    if cost > 0 then
      call('RPUSH', key, pack('<ddd', now, cost, total))
      kept = kept + 1
    end
    if kept > 0 then keep_for_newest() end
  elseif granted < 0 and length > 0 then
    keep(key, needed, needed > 0 and needed or period)
  end
  if gives_back then used = used - granted end
  return granted, used, used > 0 and newest + period - now or 0, wait
end
