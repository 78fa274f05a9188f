import fc from 'fast-check'
import type { KeyName } from '../../../../src/outbox/lua/layout.ts'
import { hour, type LuaWorld, lease, parked, published, record } from '../lua-world.ts'

/** Damage to the keys of an outbox that bypasses its scripts. `pick` chooses among the existing members. */
export interface Mess {
  readonly kind: 'drop' | 'score' | 'junk' | 'state' | 'number' | 'body' | 'wipe'
  readonly key: number
  readonly pick: number
  readonly value: number
}

export const messes: fc.Arbitrary<readonly Mess[]> = fc.array(
  fc.record({
    kind: fc.constantFrom('drop', 'drop', 'drop', 'score', 'score', 'junk', 'state', 'state', 'number', 'body', 'wipe'),
    key: fc.nat({ max: 50 }),
    pick: fc.nat({ max: 1000 }),
    value: fc.nat({ max: 50 }),
  }),
  { minLength: 1, maxLength: 25, size: 'max' },
)

const hashes = ['entries', 'state', 'errors', 'destinations', 'counts'] as const
const sets = ['ready', 'waiting', 'inflight', 'sent', 'index', 'keys'] as const
const scores = ['-5', '0', '1', '12.5', '1e300', 'inf', '-inf', '99999999999999']
const junk = ['AAAAAAAAAAAAAAAAAAAAAA', 'BBBBBBBBBBBBBBBBBBBBBB', '_-_-_-_-_-_-_-_-_-_-_-', 'CCCCCCCCCCCCCCCCCCCCCC']

/** Stores records in every state. */
export async function fill(world: LuaWorld): Promise<void> {
  const { store } = world
  const made = Array.from({ length: 24 }, (_, number) =>
    record(`e${number}`, { destination: `d${number % 3}`, attributes: number % 4 === 0 ? {} : { partitionkey: `k${number % 7}` } }),
  )
  await store.enqueue([...made, record('later', { delay: hour }), record('much later', { delay: 5 * hour })])
  const claimed = await store.claim({ limit: 18, lease })
  await store.settle(
    claimed.slice(0, 14).map((claim, index) => {
      if (index % 3 === 0) return published(claim)
      if (index % 3 === 1) return parked(claim)
      return { id: claim.id, token: claim.token, result: 'failed', error: 'refused', retryAfter: index % 2 === 0 ? hour : 0 }
    }),
  )
}

export async function mess(world: LuaWorld, { kind, key, pick, value }: Mess): Promise<void> {
  const names: readonly KeyName[] = kind === 'score' ? sets : [...hashes, ...sets]
  const name = names[key % names.length] as KeyName
  const isHash = hashes.some((one) => one === name)
  const words = async (...command: string[]) => (await world.command(...command)) as string[]
  const membersOf = async (of: KeyName, hash: boolean) =>
    await words(...(hash ? ['HKEYS', world.key(of)] : ['ZRANGE', world.key(of), '0', '-1']))
  const members = await membersOf(name, isHash)
  const one = members[pick % Math.max(1, members.length)]
  if (kind === 'wipe') await world.command('DEL', world.key(pick % 4 === 0 ? 'seq' : name))
  else if (kind === 'number')
    await world.command('HSET', world.key('counts'), `12345678${'oisf'.charAt(pick % 4)}`, value % 5 === 0 ? 'many' : String(value))
  else if (kind === 'junk') await addJunk(world, name, pick, value)
  else if (kind === 'state') await changeState(world, pick, value)
  else if (kind === 'body') {
    const bodies = await membersOf('entries', true)
    const id = bodies[pick % Math.max(1, bodies.length)]
    if (id !== undefined) await world.command('HSET', world.key('entries'), id, value % 2 === 0 ? '' : '17;{')
  } else if (one === undefined) return
  else if (kind === 'score') await world.command('ZADD', world.key(name), scores[value % scores.length] ?? '0', one)
  else await world.command(isHash ? 'HDEL' : 'ZREM', world.key(name), one)
}

async function addJunk(world: LuaWorld, name: KeyName, pick: number, value: number): Promise<void> {
  const ids = (await world.command('HKEYS', world.key('entries'))) as string[]
  // An unknown id, or the id of a record that belongs elsewhere.
  const id = (pick % 2 === 0 ? junk[pick % junk.length] : ids[pick % Math.max(1, ids.length)]) ?? 'AAAAAAAAAAAAAAAAAAAAAA'
  const score = scores[value % scores.length] ?? '0'
  const key = world.key(name)
  const seq = '0000000000000003'
  if (name === 'ready' || name === 'waiting')
    await world.command('ZADD', key, score, value % 7 === 0 ? 'odd' : `laneLANE${value % 2 === 0 ? 'f' : 'r'}${seq}${id}`)
  else if (name === 'keys')
    await world.command('ZADD', key, score, value % 7 === 0 ? 'odd' : `${'oif'.charAt(value % 3)}laneLANEkeyKEYkeyKEY${seq}${id}`)
  else if (name === 'index') await world.command('ZADD', key, score, `${'osfx'.charAt(value % 4)}${seq}${id}`)
  else if (name === 'inflight' || name === 'sent') await world.command('ZADD', key, score, value % 7 === 0 ? 'odd' : id)
  else if (name === 'entries') await world.command('HSET', key, junk[pick % junk.length] ?? '', value % 2 === 0 ? '' : 'some body')
  else if (name === 'state') await world.command('HSET', key, junk[pick % junk.length] ?? '', 'O 0 0000000000000009 1 1 lanelane - 0 ')
  else if (name === 'errors') await world.command('HSET', key, id, 'an error')
}

async function changeState(world: LuaWorld, pick: number, value: number): Promise<void> {
  const ids = (await world.command('HKEYS', world.key('state'))) as string[]
  const id = ids[pick % Math.max(1, ids.length)]
  if (id === undefined) return
  const text = String(await world.command('HGET', world.key('state'), id))
  const words = text.split(' ')
  const choice = value % 8
  if (choice === 0) words[0] = 'S'
  else if (choice === 1) words[0] = 'F'
  else if (choice === 2) words[0] = 'O'
  else if (choice === 3) words[4] = '9'.repeat(20)
  else if (choice === 4) words[7] = '9'.repeat(18)
  else if (choice === 5) words[8] = words[8] === '' ? 'a.token' : ''
  else if (choice === 6) words[5] = 'short'
  await world.command('HSET', world.key('state'), id, choice === 7 ? 'no state at all' : words.join(' '))
}
