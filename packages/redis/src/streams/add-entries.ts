import type { PublishResult } from '@ackord/core'
import type { RedisArgument, RedisPort } from '../port.ts'
import { script } from '../script.ts'
import { heldBack, notAdded } from './publish-failures.ts'

/** What is to be added to a stream. */
export interface NewEntry {
  /** When one of a key fails, those of the same key behind it are not added. */
  readonly key: string | undefined
  readonly fields: readonly RedisArgument[]
  readonly size: number
}

// KEYS: the stream. ARGV per entry: a number for its key or 0, how many names and values, these.
// Answers per entry: '' if it was added, 'HELD' behind one of its key that was not, or what the server said.
const add = script(`
local answers, failed, at = {}, {}, 1
while at <= #ARGV do
  local key, count = ARGV[at], tonumber(ARGV[at + 1])
  if failed[key] then
    answers[#answers + 1] = 'HELD'
  else
    local added = redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, at + 2, at + 1 + count))
    local refused = type(added) == 'table' and added.err
    if refused and key ~= '0' then failed[key] = true end
    answers[#answers + 1] = refused or ''
  end
  at = at + 2 + count
end
return answers`)

/** Rejects when nothing is known of any of them. */
export async function addEntries(port: RedisPort, stream: string, entries: readonly NewEntry[]): Promise<readonly PublishResult[]> {
  if (entries.length === 0) return []
  const numbers = new Map<string, number>()
  const args: RedisArgument[] = []
  for (const { key, fields } of entries) {
    if (key !== undefined && !numbers.has(key)) numbers.set(key, numbers.size + 1)
    args.push(String(key === undefined ? 0 : numbers.get(key)), String(fields.length), ...fields)
  }
  const answers = await port.evaluate(add, [stream], args)
  return entries.map((_, index): PublishResult => {
    const answer = String((answers as readonly unknown[])[index])
    if (answer === '') return { ok: true }
    return answer === 'HELD' ? heldBack(stream) : notAdded(stream, answer)
  })
}
