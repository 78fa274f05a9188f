import type { Note, NoteQuery, OutboxNotes } from '@ackord/outbox'
import { type RedisPort, type Reply, script } from '../client/port.ts'
import { asList } from '../client/reply.ts'

/**
 * The notes of an outbox. `keyOf` makes its keys, all in one slot. Each kind has two:
 *
 *     notes:<kind>        hash    name → value
 *     note-times:<kind>   zset    name, by when it was written: microseconds by the server's clock, negative, so that ZRANGEBYSCORE, which users of an outbox
 *                                 may call anyway, returns the latest first
 */
export function redisNotes(port: RedisPort, keyOf: (...parts: readonly string[]) => string): OutboxNotes {
  const keysOf = (kind: string) => [keyOf('note-times', kind), keyOf('notes', kind)]

  async function readEach(queries: readonly NoteQuery[]): Promise<readonly (readonly Note[])[]> {
    const limits = queries.flatMap(({ limit, maxAge }) => [String(limit), String(maxAge ?? '')])
    const [now, ...found] = asList(
      await port.evaluate(
        readNotes,
        queries.flatMap(({ kind }) => keysOf(kind)),
        limits,
      ),
    )
    return found.map((words) => notesOf(asList(words), Number(now)))
  }

  return {
    async put(kind, notes, keep) {
      await port.evaluate(putNotes, keysOf(kind), [String(keep), ...notes.flatMap(({ name, value }) => [name, value])])
    },

    read: async (kind, query) => (await readEach([{ kind, ...query }])).flat(),

    readEach,

    async delete(kind, name) {
      return Number(await port.evaluate(deleteNote, keysOf(kind), [name])) > 0
    },
  }
}

/** `words`: of each note its name, score and value. `now`: microseconds. */
function notesOf(words: readonly Reply[], now: number): readonly Note[] {
  const notes: Note[] = []
  for (let at = 0; at + 2 < words.length; at += 3) {
    const [name, score, value] = words.slice(at, at + 3).map(String) as [string, string, string]
    const written = -Number(score)
    // The server's clock may have been set back.
    notes.push({ name, value, at: toMilliseconds(written), age: Math.max(0, toMilliseconds(now - written)) })
  }
  return notes
}

function toMilliseconds(microseconds: number): number {
  return Math.floor(microseconds / 1000)
}

// Common to the scripts. KEYS: times, values.

/** `now`: microseconds, by the server's clock. */
const clock = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function whole(number) return string.format('%.0f', number) end`

/**
 * ARGV: milliseconds after which notes are deleted, then name and value of each note. The first writes remove nothing: they fail before anything is written if a key has another type, and
 * a server whose memory is full accepts the rest of the script after them, so that operators can discard records then. Of many old notes some are left for the next call.
 */
const putNotes = script(`${clock}
redis.call('ZREM', KEYS[1], '')
redis.call('HDEL', KEYS[2], '')
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. whole(ARGV[1] * 1000 - now), '+inf', 'LIMIT', 0, 1000)
if #old > 0 then
  redis.call('HDEL', KEYS[2], unpack(old))
  redis.call('ZREM', KEYS[1], unpack(old))
end
for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  redis.call('ZADD', KEYS[1], whole(-now), ARGV[i])
end`)

/**
 * KEYS and ARGV in pairs, one for each query. ARGV: the maximum number, and the maximum age in milliseconds or ''. Returns the time, then for each query a list: of each note
 * its name, score and value.
 */
const readNotes = script(`${clock}
local reply = { whole(now) }
for k = 1, #KEYS, 2 do
  local last = ARGV[k + 1] == '' and '+inf' or whole(ARGV[k + 1] * 1000 - now)
  local flat = redis.call('ZRANGEBYSCORE', KEYS[k], '-inf', last, 'WITHSCORES', 'LIMIT', 0, ARGV[k])
  local found = {}
  for i = 1, #flat, 2 do
    local value = redis.call('HGET', KEYS[k + 1], flat[i])
    if value then
      local n = #found
      found[n + 1], found[n + 2], found[n + 3] = flat[i], flat[i + 1], value
    end
  end
  reply[#reply + 1] = found
end
return reply`)

/** ARGV: the name. Returns how many keys had it. */
const deleteNote = script(`return redis.call('ZREM', KEYS[1], ARGV[1]) + redis.call('HDEL', KEYS[2], ARGV[1])`)
