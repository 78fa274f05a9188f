import { keySlot } from './client/keys.ts'
import { type RedisPort, type Reply, type Script, script } from './client/port.ts'
import { internalsOf, type Redis } from './transaction/redis.ts'

/** Whether confirmed writes survive a crash, by one setting of the server. */
export interface DurabilityCheck {
  readonly name: 'appendonly' | 'appendfsync' | 'maxmemory-policy' | 'replicas'
  /** `unknown`: the server does not reveal the setting, as most managed ones. */
  readonly state: 'ok' | 'violated' | 'unknown'
  /** The finding, and what to do about it. */
  readonly text: string
  /** The server; on a cluster the address of the master. */
  readonly server: string
}

export interface DurabilityReport {
  /** The worst of the checks: `violated`, then `unknown`, then `ok`. */
  readonly state: 'ok' | 'violated' | 'unknown'
  /** On a cluster the checks of every master. */
  readonly checks: readonly DurabilityCheck[]
}

/** Settings of one server; those that it does not reveal are missing. */
interface Facts {
  readonly server: string
  readonly information: ReadonlyMap<string, string>
  readonly settings: ReadonlyMap<string, string>
}

const settingNames = ['appendonly', 'appendfsync', 'no-appendfsync-on-rewrite', 'maxmemory-policy', 'min-replicas-to-write'] as const

/**
 * Checks what the server does with a confirmed write. Every guarantee of this package holds as far as these settings do: with
 * `appendfsync everysec` a power failure loses the last second, with asynchronous replicas a failover loses what they had not received yet, and with an eviction
 * policy the server evicts inbox markers and outbox entries when memory is full.
 * It changes nothing, and uses only CONFIG GET and INFO.
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
  const text = 'There is no append-only file: a restart loses all writes since the last snapshot. Set appendonly yes.'
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
    return { name, server, state: 'violated', text: 'The server is a replica, which accepts no writes. Connect to the master.' }
  }
  if (connected === undefined) return { name, server, state: 'unknown', text: hidden('INFO replication', 'how many replicas there are') }
  if (connected === '0') {
    const text = 'The server has no replica: if its disk is lost, all data is lost. Add one, and set min-replicas-to-write 1.'
    return { name, server, state: 'violated', text }
  }
  // The server reports it only if there is a minimum.
  const minimum = wanted ?? (information.has('min_slaves_good_slaves') ? '1' : undefined)
  if (minimum === undefined) return { name, server, state: 'unknown', text: hidden('min-replicas-to-write', 'that it is 1 or more') }
  if (minimum === '0') {
    const text = `The server has ${connected} replicas, but confirms writes without any: disconnected from them it continues, and a failover loses the writes since then. Set min-replicas-to-write 1.`
    return { name, server, state: 'violated', text }
  }
  const text = `The server accepts writes only with connected replicas, and has ${connected}. They receive writes a little later: a failover may lose the last moment.`
  return { name, server, state: 'ok', text }
}

function hidden(what: string, wish: string): string {
  return `The server does not reveal ${what}, as is common for managed servers. Check ${wish} in the console of the provider.`
}

async function serverFacts(port: RedisPort): Promise<Facts> {
  const reply = await asked(() => port.send({ name: 'INFO', args: [], keys: [] }))
  return { server: 'the server', information: toInformation(reply), settings: await settingsOf(port) }
}

/** One at a time: Redis 6.0 accepts only one name. */
async function settingsOf(port: RedisPort): Promise<ReadonlyMap<string, string>> {
  const ask = (name: string) => asked(() => port.send({ name: 'CONFIG', args: ['GET', name], keys: [] }))
  const replies = await Promise.all(settingNames.map(ask))
  return new Map(replies.flatMap((reply): [string, string][] => (isPair(reply) ? [[String(reply[0]), String(reply[1])]] : [])))
}

function isPair(reply: Reply | undefined): reply is readonly Reply[] {
  return Array.isArray(reply) && reply.length >= 2
}

// The key selects the node; it is neither read nor written. CONFIG is not allowed in scripts.
const information: Script = script(`return redis.call('INFO')`)

/** Reaches each master by a key in one of its slots. CONFIG has no key: any node answers it, and the client does not say which. */
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

/** The answer of one node is enough to know of a violation, but not to know that there is none. */
async function someNode(port: RedisPort): Promise<readonly DurabilityCheck[]> {
  const check = fsync({ server: 'one of the nodes', information: new Map(), settings: await settingsOf(port) })
  return check.state === 'violated' ? [check] : []
}

/** Found by trying: one key in 16,384 matches. */
function keyIn(slot: number, keyPrefix: string): string {
  for (let attempt = 0; ; attempt += 1) {
    const key = `ackord-${attempt}`
    if (keySlot(keyPrefix + key) === slot) return key
  }
}

/** `undefined` if the server does not allow it. Connection errors are rethrown. */
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
