import { offsetOf } from '../layout.ts'
import { ackordLua, type OutboxScript, outboxScript } from './prelude.ts'

/**
 * Removes delayed records, in the script of the outbox or in the commit of a transaction, behind `ackordLua` and `enqueueLua`:
 *
 *     ackord.checkCancel(k, a)   why the records cannot be cancelled, as the text of an error, or nil
 *     ackord.cancel(k, a)        removes delayed records. Returns a sign for each: '-' removed, '=' not changed
 *
 *     KEYS from k on: those of a shard
 *     ARGV from a on: the number of records; then for each its id and destinationHash
 *     writes: for each state, body, error, edited, index, then out of waiting, ready, inflight and keys; counts. `ackord.began` says whether it has written
 *
 * A cancelled record can be stored again by the same transaction, with another body: `checkCancel` records that for `ackord.check`.
 */
export const cancelLua: string = `do
  local call = redis.call
  local function waits(k, id, destinationHash)
    local s = ackord.read(call('HGET', KEYS[k + ${offsetOf('state')}], id))
    local now = ackord.now()
    -- The id is that of the record as it was stored. An operator may have changed its destination since.
    if s and s.status == 'O' and s.destinationHash == destinationHash and s.at > now and (s.token == '' or s.expires <= now) then return s end
  end
  function ackord.checkCancel(k, a)
    local problem = ackord.problem(k)
    if problem then return problem end
    local count = tonumber(ARGV[a])
    if not count or #ARGV < a + count * 2 then return 'ERR the records to cancel are not those of cancel()' end
    for i = 1, count do
      local id = ARGV[a + i * 2 - 1]
      local planned = ackord.planned[id]
      if planned == nil and waits(k, id, ARGV[a + i * 2]) or planned and planned.waits then ackord.planned[id] = false end
    end
  end
  function ackord.cancel(k, a)
    local signs = {}
    for i = 1, tonumber(ARGV[a]) do
      local id = ARGV[a + i * 2 - 1]
      local s = waits(k, id, ARGV[a + i * 2])
      signs[i] = s and '-' or '='
      if s then
        ackord.began = true
        local member, line = ackord.member(id, s), ackord.line(s.token == '' and 'o' or 'i', id, s)
        call('HDEL', KEYS[k + ${offsetOf('state')}], id)
        call('HDEL', KEYS[k + ${offsetOf('entries')}], id)
        call('HDEL', KEYS[k + ${offsetOf('errors')}], id)
        call('HDEL', KEYS[k + ${offsetOf('edited')}], id)
        call('ZREM', KEYS[k + ${offsetOf('index')}], 'o' .. s.seq .. id)
        call('ZREM', KEYS[k + ${offsetOf('waiting')}], member)
        call('ZREM', KEYS[k + ${offsetOf('ready')}], member)
        call('ZREM', KEYS[k + ${offsetOf('inflight')}], id)
        if line then call('ZREM', KEYS[k + ${offsetOf('keys')}], line) end
        ackord.count(s.destinationHash, 'o', -1)
        if s.token ~= '' then ackord.count(s.destinationHash, 'i', -1) end
      end
    end
    ackord.flush(k)
    return table.concat(signs)
  end
end`

/**
 * Removes delayed records.
 *
 *     KEYS: those of a shard
 *     ARGV: those of `ackord.cancel`
 *     returns: a sign for each
 *     writes: as `ackord.cancel`
 */
export const cancelScript: OutboxScript = outboxScript(
  'cancel',
  `${ackordLua}
ackord.planned = {}
${cancelLua}
local problem = ackord.checkCancel(1, 1)
if problem then return redis.error_reply(problem) end
return ackord.cancel(1, 1)`,
)
