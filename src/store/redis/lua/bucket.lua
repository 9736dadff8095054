
-- The token bucket. Its state is the instant at which it is full again: w + f/n microseconds, where a token takes d/n microseconds to
-- come. Without refill there is no time: a debt is counted in tokens, as if from the instant 0 on a clock that stands still, n is 0 in
-- the value and 1 here.
--
-- The value carries n and d. They are the limit's, or both k times as large: a debt that was kept under another rate may need a finer
-- fraction.

-- What a debt of w + f/n1 microseconds at n1/d1 tokens a microsecond is at n/d: w, f and k. Where n*k or d*k would be too large, what is
-- no whole token of it is rounded up: by less than two microseconds, or eight where it takes decades to pay, and to no more than a token.
local function convert(w, f, n1, d1, n, d)
  local function gcd(a, b)
    while b > 0 do a, b = b, a % b end
    return a
  end
  local g, h = gcd(n1, n), gcd(d, d1)
  local k = d1 / h
  local p, q, m = (n1 / g) * (d / h), k * (n / g), n * k
  if (w + f / n1) * (p / q) >= 4503599627370496 then return 4503599627370496, 0, 1 end -- beyond all capacities: anchored anew
  if p >= 9007199254740992 or m > 4503599627370496 or d * k > 4503599627370496 then
    local tokens, rest = muldiv(w, n1, d1)
    local more = (rest + f - (rest + f) % d1) / d1
    rest = rest + f - more * d1
    local up = rest > 0 and floor(rest / d1 * (d / n) * (1 + 2 ^ -50)) + 1 or 0
    local whole_token = up > (d - 1 - (d - 1) % n) / n
    local w1, f1 = muldiv(tokens + more + (whole_token and 1 or 0), d, n)
    return whole_token and w1 or w1 + up, f1, 1
  end
  local w1, rest1 = muldiv(w, p, q)
  local w2, rest2 = muldiv(f, d / h, m)
  local rest = rest1 * g + rest2
  if rest >= m then return w1 + w2 + 1, rest - m, k end
  return w1 + w2, rest, k
end

local function bucket(key, question, commit)
  local n, d, full, full_f, least, least_f, most, most_w, most_f =
    unpack(#question > 49 and '<ddddddddd' or '<dddddd', question, 2)
  local long = most_w -- unpack gives the position behind what it has read as well
  local refills, start, skew = true, now, 60000000
  if n == 0 then refills, start, skew = false, 0, 0 end
  local debt, f, k, in_place, changed = 0, 0, 1, false, false
  local value = redis.pcall('GET', key)
  if value then
    local letter, w1, f1, n1, d1
    if #value == 33 then letter, w1, f1, n1, d1 = unpack('<c1dddd', value) end
    if is_other(value, 'b') then
      value = false
    elseif letter ~= 'b' or not (whole(w1) and whole(f1) and f1 < (n1 > 0 and n1 or d1)) or
        (n1 ~= n or d1 ~= d) and not (whole(n1) and n1 <= 4503599627370496 and whole(d1) and d1 <= 4503599627370496 and d1 > 0) then
      heal(key)
      value = false
    elseif n1 == n and d1 == d then
      if w1 >= start then debt, f, in_place = w1 - start, f1, own_clock and refills end
      -- It should have expired long ago.
      if own_clock and refills and w1 + 3000000 < now then healed = healed + 1 end
    else
      k = refills and n1 / n or d1
      if n1 == n * k and d1 == d * k and k == floor(k) then
        if w1 >= start then debt, f = w1 - start, f1 end
      else
        -- Another rate: the debt is kept in tokens, and stored at this rate whatever is decided.
        k, changed = 1, true
        local start1 = n1 > 0 and now or 0
        if w1 >= start1 then
          debt, f, k = convert(w1 - start1, f1, n1 > 0 and n1 or d1, d1, refills and n or 1, d)
        end
      end
      n, d, full_f, least_f, most_f = n * k, d * k, full_f * k, least_f * k, long and most_f * k
    end
  end
  local one = refills and n or k -- a microsecond, in fractions
  local excess = debt - skew - full
  if excess > 0 or (excess == 0 and f > full_f) then
    debt, f, changed = full, full_f, true -- a clock was set, or the limit was lowered: anchored anew, empty
  end

  local granted, after, after_f = 1, debt + least, f + least_f
  if gives_back then
    -- Of a charge that is undone, what has been refilled since was somebody else's to take.
    if operation == 'u' and refills then
      least = least - (now > most and now - most or 0)
      if least < 0 then least, least_f = 0, 0 end
    end
    after, after_f, changed = debt - least, f - least_f, value
    if after_f < 0 then after, after_f = after - 1, after_f + one end
    if after < 0 then after, after_f = 0, 0 end
  else
    if after_f >= one then after, after_f = after + 1, after_f - one end
    if after > full or (after == full and after_f > full_f) then
      granted, after, after_f = -1, debt, f
    else
      if long then
        granted, after, after_f = most, debt + most_w, f + most_f
        if after_f >= one then after, after_f = after + 1, after_f - one end
        if after > full or (after == full and after_f > full_f) then
          local tokens, rest = muldiv(full - debt, one, d)
          granted = tokens + floor((rest + full_f - f) / d)
          local charge, charge_f = muldiv(granted, d, one)
          after, after_f = debt + charge, f + charge_f
          if after_f >= one then after, after_f = after + 1, after_f - one end
        end
      end
      if not commit then after, after_f = debt, f end
    end
  end

  if operation ~= 'p' and (changed or after ~= debt or after_f ~= f) then
    local w = start + after
    if not refills and after == 0 and after_f == 0 then
      call('DEL', key)
    elseif not refills then
      call('SET', key, pack('<c1dddd', 'b', w, after_f, n, d), 'PX', '315360000000')
    else
      -- It expires at the end of the cell of half a second that w lies in, so that most charges of a busy key leave the expiry alone.
      local cell = floor(w / 524288)
      if in_place and not changed and cell == floor((start + debt) / 524288) then
        call('SETRANGE', key, 1, pack('<dd', w, after_f))
      else
        call('SET', key, pack('<c1dddd', 'b', w, after_f, n, d), 'PX', floor(((cell + 1) * 524288 - now) / 1000) + slack)
      end
    end
  elseif granted < 0 and value then
    if refills then
      local left = (floor((now + debt) / 524288) + 1) * 524288 - now -- of its cell, as a charge would have it
      keep(key, debt + f > 0 and left or 0, left)
    else
      keep(key, 0, 315360000000000)
    end
  end
  if gives_back then return granted, after, after_f, k end
  return granted, debt, f, k
end
