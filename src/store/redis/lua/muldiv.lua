
-- floor(a*b / m) and the rest, for a, b < 2^53 and m <= 2^52 with a quotient below 2^53.
local function muldiv(a, b, m)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % m
    return (product - rest) / m, rest
  end
  local quotient, rest, bit = 0, 0, 4503599627370496
  local b_rest = b % m
  local b_quotient = (b - b_rest) / m
  while bit >= 1 do
    quotient, rest = 2 * quotient, 2 * rest
    if rest >= m then quotient, rest = quotient + 1, rest - m end
    if a >= bit then
      a, quotient, rest = a - bit, quotient + b_quotient, rest + b_rest
      if rest >= m then quotient, rest = quotient + 1, rest - m end
    end
    bit = bit / 2
  end
  return quotient, rest
end
