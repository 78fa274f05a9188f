import { type Script, script } from '../client/port.ts'

/**
 * Takes permits of several keys. Each key holds the time at which its bucket is full again, in microseconds by the clock of the server, and expires then.
 *
 *     KEYS: the buckets
 *     ARGV: for each of them limit, interval (milliseconds), burst, wanted, returned
 *
 * The answer is, for each of them, the number of granted permits and the milliseconds until there is another one, or 0. Errors are returned, not thrown: before Redis 7.0 a thrown
 * error has another text. A permit counts when it lacks less than a thousandth; the bucket still owes the rest.
 */
export const takeScript: Script = script(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reply = {}
for index, bucket in ipairs(KEYS) do
  local at = (index - 1) * 5
  local limit, interval, burst = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local wanted, returned = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local cost = interval * 1000 / limit
  local capacity = burst * cost
  local held = redis.pcall('GET', bucket)
  if type(held) == 'table' then return held end
  local full = math.min(tonumber(held or now) or now, now + capacity)
  full = math.max(now, full - returned * cost)
  local granted = math.min(wanted, math.max(0, math.floor((capacity - (full - now)) / cost + 0.001)))
  full = full + granted * cost
  local wait = 0
  if granted < wanted then wait = math.max(1, math.ceil((full - now + cost - capacity) / 1000)) end
  if full > now then
    local kept = redis.pcall('SET', bucket, string.format('%.0f', full), 'PX', string.format('%.0f', math.ceil((full - now) / 1000)))
    if kept.err then return kept end
  elseif held then
    local removed = redis.pcall('DEL', bucket)
    if type(removed) == 'table' then return removed end
  end
  reply[2 * index - 1] = granted
  reply[2 * index] = wait
end
return reply`)
