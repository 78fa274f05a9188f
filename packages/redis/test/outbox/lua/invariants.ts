import type { LuaShard } from '../../../src/outbox/lua/layout.ts'
import type { LuaWorld } from './lua-world.ts'

/** Describes every violated invariant of the layout; empty if all hold. */
export async function brokenInvariants(world: LuaWorld, shard: LuaShard = world.shard): Promise<string[]> {
  const words = async (...command: string[]) => (await world.command(...command)) as string[]
  const scored = async (name: 'ready' | 'waiting' | 'inflight' | 'sent' | 'index' | 'keys') => {
    const flat = await words('ZRANGE', world.key(name, shard), '0', '-1', 'WITHSCORES')
    return flatPairs(flat)
  }
  const hash = async (name: 'state' | 'counts' | 'destinations') => flatPairs(await words('HGETALL', world.key(name, shard)))
  const problems: string[] = []
  const states = await hash('state')
  const bodies = new Set(await words('HKEYS', world.key('entries', shard)))
  const errors = await words('HKEYS', world.key('errors', shard))
  const [ready, waiting, inflight, sent, index, keys] = await Promise.all(
    (['ready', 'waiting', 'inflight', 'sent', 'index', 'keys'] as const).map((name) => scored(name)),
  )
  if (!(ready && waiting && inflight && sent && index && keys)) throw new Error('expected replies for six keys')
  const expect = (what: string, found: unknown, wanted: unknown) => {
    if (String(found) !== String(wanted)) problems.push(`${what}: ${found} instead of ${wanted}`)
  }
  const counted = new Map<string, number>()
  const count = (field: string) => counted.set(field, (counted.get(field) ?? 0) + 1)

  let lines = 0
  const holders = new Map<string, string>()
  for (const [id, text] of states) {
    const [status = '', attempts, seq, , at = '', destinationHash = '', print = '', until = '', token = ''] = text.split(' ')
    if (!bodies.has(id)) problems.push(`${id} has a state and no body`)
    const [, key = ''] = print.split('.')
    const member = `${destinationHash}${key !== '' ? 'k' : Number(attempts) > 0 ? 'r' : 'f'}${seq}${id}`
    const open = status === 'O'
    if (key !== '' && status !== 'S') {
      const line = `${open ? (token === '' ? 'o' : 'i') : 'f'}${destinationHash}${key}${seq}${id}`
      if (!keys.has(line)) problems.push(`${id} (${text}) is not among those of its key`)
      lines += 1
      if (token !== '') {
        const holder = holders.get(destinationHash + key) ?? token
        holders.set(destinationHash + key, holder)
        expect(`the holder of the records in flight of the key of ${id}`, token, holder)
      }
    }
    const places = [ready.has(member), waiting.has(member), inflight.has(id), sent.has(id)].map(Number).join('')
    const wanted = open ? (token === '' ? ['1000', '0100'] : ['0010']) : status === 'S' ? ['0001'] : ['0000']
    if (!wanted.includes(places)) problems.push(`${id} (${text}) is in ready, waiting, inflight, sent: ${places}`)
    if (waiting.has(member)) expect(`the time of ${id}`, waiting.get(member), at)
    if (inflight.has(id)) expect(`the lease of ${id}`, inflight.get(id), until)
    if (sent.has(id)) expect(`the publication of ${id}`, sent.get(id), at)
    if (token === '') expect(`the lease of ${id}, which has none`, until, 0)
    const letter = open ? 'o' : status.toLowerCase()
    if (!index.has(`${letter}${seq}${id}`)) problems.push(`${id} (${text}) is not in the index`)
    count(destinationHash + letter)
    if (token !== '') count(`${destinationHash}i`)
  }
  expect('bodies', bodies.size, states.size)
  expect('members of the index', index.size, states.size)
  expect('members of keys', keys.size, lines)
  const opened = [...states.values()].filter((text) => text.startsWith('O')).length
  expect('members of ready, waiting and inflight', ready.size + waiting.size + inflight.size, opened)
  for (const id of errors) if (!states.has(id)) problems.push(`${id} has an error and no state`)
  for (const id of sent.keys()) if (!states.has(id)) problems.push(`${id} is in sent and has no state`)
  for (const [field, value] of await hash('counts')) expect(`the count of ${field}`, value, counted.get(field) ?? 0)
  for (const [field, value] of counted) expect(`the count of ${field}`, (await hash('counts')).get(field) ?? 0, value)
  return problems
}

/** RESP3 replies with pairs or a map, RESP2 with a flat array. */
function flatPairs(reply: readonly (string | readonly string[])[] | object): Map<string, string> {
  if (reply instanceof Map) return new Map(reply)
  if (!Array.isArray(reply)) return new Map(Object.entries(reply))
  const flat: string[] = reply.flat().map(String)
  return new Map(flat.flatMap((name, place): [string, string][] => (place % 2 === 0 ? [[name, flat[place + 1] ?? '']] : [])))
}
