-- The head of every script; script.c puts scripts together of these pieces, and docs/formats/redis.md describes keys, values, arguments
-- and the reply.
--
-- ARGV[1]  't' take, 'p' peek, 'r' give back, 'u' undo a charge that was made a moment ago, 'x' forget
-- ARGV[2]  the instant in microseconds, or '' for the store's own clock
-- ARGV[3...] one question a key, packed by question.c: the algorithm's letter, then numbers
-- Reply    packed numbers: keys that had to be healed, the instant, then four for each key: what it grants (-1: it refuses), and its
--          state before the decision (after it, when tokens are given back), from which question.c works out the answer
--
-- Every number is whole and below 2^53, where a double is exact; a product that is not goes through muldiv.
local call, pack, unpack, floor = redis.call, struct.pack, struct.unpack, math.floor
local operation, now, slack, own_clock, healed = ARGV[1], tonumber(ARGV[2]), 60000, false, 0
local gives_back = operation == 'r' or operation == 'u'
if not now then
  local time = call('TIME')
  now, slack, own_clock = time[1] * 1000000 + time[2], 100, true
end
