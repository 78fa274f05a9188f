/**
 * Behind `shardLua`: which store objects poll an outbox with order per key, and which claims hold. A store object is live in `pollers` for as long as it claims or renews. One whose
 * lease has expired holds nothing, also while no other has taken over.
 *
 *     living()          the names of the live store objects
 *     ownerOf(token)    the name of the store object that claimed with this token, or nil without order per key
 *     holds(s, token)   whether a claim of this record holds
 *     lapse(id, s)      makes a record in flight claimable again; the caller removes it from inflight
 */
export const pollerLua: string = `local longestLease = 30 * 24 * 3600 * 1000
local lives
local function living()
  if lives then return lives end
  lives = {}
  local flat = redis.call('ZRANGEBYSCORE', pollers, '-inf', '+inf', 'WITHSCORES')
  for i = 1, #flat, 2 do
    local ends = tonumber(flat[i + 1])
    lives[flat[i]] = ends > now and ends <= now + longestLease or nil
  end
  return lives
end
local function ownerOf(token) return string.match(token, '^([^/]+)/') end
local function holds(s, token)
  if not s or s.status ~= 'O' or s.token == '' or s.token ~= token then return false end
  local owner = ownerOf(token)
  if owner then return living()[owner] == true end
  return s.expires > now
end
local function lapse(id, s)
  s.expires, s.token = 0, ''
  ackord.count(s.destinationHash, 'i', -1)
  redis.call('ZADD', ready, 0, member(id, s))
  addToKey('o', id, s)
  redis.call('HSET', state, id, ackord.write(s))
  removeFromKey('i', id, s)
end`
