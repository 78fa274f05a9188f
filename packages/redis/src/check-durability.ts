import { keySlot } from './client/keys.ts'
import { type RedisPort, type Reply, type Script, script } from './client/port.ts'
import { internalsOf, type Redis } from './transaction/redis.ts'

/** Whether what Redis has confirmed survives a crash, for one of its settings. */
export interface DurabilityCheck {
  readonly name: 'appendonly' | 'appendfsync' | 'maxmemory-policy' | 'replicas'
  /** `unknown`: Redis does not tell, as most managed ones. */
  readonly state: 'ok' | 'violated' | 'unknown'
  /** What was found, and what to do about it. */
  readonly text: string
  /** Which server, on a cluster the address of the master. */
  readonly server: string
}

export interface DurabilityReport {
  /** The worst of the checks: a violation counts more than what is not known. */
  readonly state: 'ok' | 'violated' | 'unknown'
  /** On a cluster those of every master. */
  readonly checks: readonly DurabilityCheck[]
}

/** What is known of one server; settings that it does not tell are missing. */
interface Facts {
  readonly server: string
  readonly information: ReadonlyMap<string, string>
  readonly settings: ReadonlyMap<string, string>
}

const settingNames = ['appendonly', 'appendfsync', 'no-appendfsync-on-rewrite', 'maxmemory-policy', 'min-replicas-to-write'] as const

/**
 * Looks at what the server does with a write that it has confirmed. A promise that rests on Redis holds as far as this does: with
 * `appendfsync everysec` a power cut takes the last second, with asynchronous replicas a failover takes what they had not yet got, and a policy that evicts
 * takes inbox markers and outbox entries when memory is short.
 * It changes nothing, and asks with CONFIG GET and INFO only.
 */
export async function checkDurability(redis: Redis): Promise<DurabilityReport> {
  const { port } = internalsOf(redis)
  const servers = port.cluster ? await masterFacts(port) : [await serverFacts(port)]
  const checks = servers.flatMap((facts) => [appendOnly(facts), fsync(facts), eviction(facts), replicas(facts)])
  if (port.cluster) checks.push(...(await someNode(port)))
  const state = checks.some((check) => check.state === 'violated')
    ? 'violated'
    : checks.some((check) => check.state === 'unknown')
      ? 'unknown'
      : 'ok'
  return { state, checks }
}

function appendOnly({ server, information, settings }: Facts): DurabilityCheck {
  const name = 'appendonly'
  const found = settings.get(name) ?? { '1': 'yes', '0': 'no' }[information.get('aof_enabled') ?? '']
  if (found === undefined) return { name, server, state: 'unknown', text: hidden(name, 'that it is yes') }
  if (found === 'yes') return { name, server, state: 'ok', text: 'Writes go to the append-only file.' }
  const text = 'There is no append-only file: a restart goes back to the last snapshot, and all since then is lost. Set appendonly yes.'
  return { name, server, state: 'violated', text }
}

function fsync({ server, settings }: Facts): DurabilityCheck {
  const name = 'appendfsync'
  const found = settings.get(name)
  if (found === undefined) return { name, server, state: 'unknown', text: hidden(name, 'that it is always') }
  if (found === 'always' && settings.get('no-appendfsync-on-rewrite') === 'yes') {
    const text =
      'appendfsync is always, but no-appendfsync-on-rewrite is yes: while the append-only file or a snapshot is written, confirmed writes are not on disk, for as long as that takes. Set no-appendfsync-on-rewrite no.'
    return { name, server, state: 'violated', text }
  }
  if (found === 'always') return { name, server, state: 'ok', text: 'A write is on disk before it is confirmed.' }
  const lost = found === 'everysec' ? 'up to a second or two' : 'as much as the kernel has not written yet, often half a minute,'
  const text = `appendfsync is ${found}: a power cut takes ${lost} of confirmed writes. Set appendfsync always, or accept it and say so.`
  return { name, server, state: 'violated', text }
}

function eviction({ server, information, settings }: Facts): DurabilityCheck {
  const name = 'maxmemory-policy'
  const found = settings.get(name) ?? information.get('maxmemory_policy')
  if (found === undefined) return { name, server, state: 'unknown', text: hidden(name, 'that it is noeviction') }
  if (found === 'noeviction') return { name, server, state: 'ok', text: 'When memory is short, writes fail; nothing is evicted.' }
  const victims = found.startsWith('allkeys') ? 'streams, inbox markers and all else' : 'inbox markers, which have a time to live'
  const text = `maxmemory-policy is ${found}: when memory is short, ${victims} may be evicted, which loses or doubles messages. Set it to noeviction.`
  return { name, server, state: 'violated', text }
}

function replicas({ server, information, settings }: Facts): DurabilityCheck {
  const name = 'replicas'
  const wanted = settings.get('min-replicas-to-write')
  const connected = information.get('connected_slaves')
  if (information.get('role') === 'slave') {
    return { name, server, state: 'violated', text: 'It is a replica: it takes no writes. Connect to the master.' }
  }
  if (connected === undefined) return { name, server, state: 'unknown', text: hidden('INFO replication', 'how many replicas there are') }
  if (connected === '0') {
    const text = 'It has no replica: when its disk is lost, all is lost. Add one, and set min-replicas-to-write 1.'
    return { name, server, state: 'violated', text }
  }
  // Told only where there is a minimum.
  const minimum = wanted ?? (information.has('min_slaves_good_slaves') ? '1' : undefined)
  if (minimum === undefined) return { name, server, state: 'unknown', text: hidden('min-replicas-to-write', 'that it is 1 or more') }
  if (minimum === '0') {
    const text = `It has ${connected} replicas, but confirms writes without any: cut off from them it goes on, and a failover loses what came since. Set min-replicas-to-write 1.`
    return { name, server, state: 'violated', text }
  }
  const text = `It takes writes only with replicas connected, and has ${connected}. They get them a little later: a failover may lose the last moment.`
  return { name, server, state: 'ok', text }
}

function hidden(what: string, wish: string): string {
  return `The server does not tell ${what}, as managed ones often do not. See ${wish} in the console of whoever runs it.`
}

async function serverFacts(port: RedisPort): Promise<Facts> {
  const reply = await asked(() => port.send({ name: 'INFO', args: [], keys: [] }))
  return { server: 'the server', information: toInformation(reply), settings: await settingsOf(port) }
}

/** One at a time: 6.0 takes no more. */
async function settingsOf(port: RedisPort): Promise<ReadonlyMap<string, string>> {
  const ask = (name: string) => asked(() => port.send({ name: 'CONFIG', args: ['GET', name], keys: [] }))
  const replies = await Promise.all(settingNames.map(ask))
  return new Map(replies.flatMap((reply): [string, string][] => (isPair(reply) ? [[String(reply[0]), String(reply[1])]] : [])))
}

function isPair(reply: Reply | undefined): reply is readonly Reply[] {
  return Array.isArray(reply) && reply.length >= 2
}

// A key leads to the node; nothing is read or written under it. CONFIG is not for scripts.
const information: Script = script(`return redis.call('INFO')`)

/** Each by a key that it has the slot of. CONFIG has no key: any node answers it, and nobody knows which. */
async function masterFacts(port: RedisPort): Promise<readonly Facts[]> {
  const slots = await asked(() => port.send({ name: 'CLUSTER', args: ['SLOTS'], keys: [] }))
  const masters = new Map<string, number>()
  if (Array.isArray(slots)) {
    for (const [from, , [host, number]] of slots as [Reply, Reply, Reply[]][])
      masters.set(`${String(host)}:${String(number)}`, Number(from))
  }
  if (masters.size === 0) return [{ server: 'the cluster', information: new Map(), settings: new Map() }]
  return await Promise.all(
    Array.from(masters, async ([server, slot]): Promise<Facts> => {
      const reply = await asked(() => port.evaluate(information, [keyIn(slot, port.keyPrefix)], []))
      return { server, information: toInformation(reply), settings: new Map() }
    }),
  )
}

/** The one node that answered is enough to know that something is wrong, and not enough to know that all is well. */
async function someNode(port: RedisPort): Promise<readonly DurabilityCheck[]> {
  const check = fsync({ server: 'one of the nodes', information: new Map(), settings: await settingsOf(port) })
  return check.state === 'violated' ? [check] : []
}

/** Found by trying: one in 16,384 is. */
function keyIn(slot: number, keyPrefix: string): string {
  for (let attempt = 0; ; attempt += 1) {
    const key = `ackord-${attempt}`
    if (keySlot(keyPrefix + key) === slot) return key
  }
}

/** `undefined` if it is not allowed. What is wrong with the connection is the caller's to know. */
async function asked(ask: () => Promise<Reply>): Promise<Reply | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (
      error instanceof Error &&
      /\bNOPERM\b|unknown command|unknown subcommand|not allowed|can't run this command|ACL failure/i.test(error.message)
    )
      return undefined
    throw error
  }
}

function toInformation(reply: Reply | undefined): ReadonlyMap<string, string> {
  const lines = String(reply ?? '').split(/\r?\n/)
  return new Map(lines.flatMap((line) => (line.includes(':') ? [splitOnce(line)] : [])))
}

function splitOnce(line: string): [string, string] {
  const at = line.indexOf(':')
  return [line.slice(0, at), line.slice(at + 1)]
}
