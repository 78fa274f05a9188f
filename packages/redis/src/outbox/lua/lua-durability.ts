import { AckordError, InvalidOptionError, isAckordError, type Logger, type Metrics } from '@ackord/core'
import { checkChoice, checkCount, checkDuration, checkFunction, checkNoMore, guardLogger, guardMetrics } from '@ackord/core/internal'
import { checkDurability, type DurabilityCheck, type DurabilityReport } from '../../check-durability.ts'
import { keySlot } from '../../client/keys.ts'
import { type Script, script } from '../../client/port.ts'
import { internalsOf, type Redis } from '../../transaction/redis.ts'
import { homeOf, type LuaHome } from './context.ts'
import type { LuaShard } from './layout.ts'
import type { LuaOutbox } from './lua-outbox.ts'
import { RoundRunner, type RunnerHealth } from './round-runner.ts'

const checkNames = ['appendonly', 'appendfsync', 'maxmemory-policy', 'replicas', 'version', 'slots', 'scripts'] as const

export interface LuaDurabilityCheck extends Omit<DurabilityCheck, 'name'> {
  readonly name: (typeof checkNames)[number]
  /** Whether it is among those that were said to be accepted: then it does not count. */
  readonly accepted: boolean
}

export interface LuaDurabilityReport {
  /** The worst of the checks that count: a violation counts more than what is not known. */
  readonly state: DurabilityReport['state']
  readonly checks: readonly LuaDurabilityCheck[]
}

export interface LuaDurabilityOptions {
  /** Milliseconds between two checks, ± 10 %. Default: 1 minute. */
  readonly interval?: number | undefined
  /** What `start()` rejects for: a violation, or also what is not known. What keeps the outbox from working at all is always a reason. Default: nothing else. */
  readonly failAtStart?: 'violated' | 'unknown' | undefined
  /** Checks that need not hold, such as `replicas`, or `appendfsync` where the last second may be lost. Default: none. */
  readonly accept?: readonly LuaDurabilityCheck['name'][] | undefined
  /** Told every report. Default: nothing. */
  readonly onReport?: ((report: LuaDurabilityReport) => void) | undefined
  /** Told what is not well, and when that changes. Default: that of the outbox. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.outbox.durability_violations`, at each check, by its name. Default: that of the outbox. */
  readonly metrics?: Metrics | undefined
}

export interface LuaDurabilityHealth extends RunnerHealth {
  readonly lastReport: LuaDurabilityReport | undefined
}

/** Whether what the outbox has confirmed survives a crash: at the start, and from time to time, since settings change. It does not keep the process alive. */
export interface LuaDurability extends AsyncDisposable {
  check(): Promise<LuaDurabilityReport>
  /** Checks, and rejects for what it was told to; then checks from time to time, and only tells. One that runs goes on as it does. */
  start(): Promise<LuaDurabilityReport>
  /** Idempotent in every state. */
  stop(): Promise<void>
  health(): LuaDurabilityHealth
}

/** On top of `checkDurability()`: the version, the slots of the keys, and whether scripts may do all that they must. It changes nothing that counts. */
export function luaDurability(redis: Redis, outbox: LuaOutbox, options: LuaDurabilityOptions = {}): LuaDurability {
  const home = homeOf(outbox)
  const { interval = 60_000, failAtStart, accept = [], onReport, logger: givenLogger = home.logger, ...ports } = options
  const { metrics: givenMetrics = home.metrics, ...unknown } = ports
  checkNoMore('luaDurability()', unknown)
  checkDuration('interval', interval, { min: 1 })
  if (failAtStart !== undefined) checkChoice('failAtStart', failAtStart, ['violated', 'unknown'])
  if (!Array.isArray(accept)) throw new InvalidOptionError('accept', 'must be a list of names of checks.')
  for (const name of accept) checkChoice('accept', name, checkNames)
  if (onReport !== undefined) checkFunction('onReport', onReport)
  const logger = guardLogger(givenLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
  const { runtime } = home
  /** What was told last of each check. */
  const told = new Map<string, string>()
  let lastReport: LuaDurabilityReport | undefined

  async function look(): Promise<{ report: LuaDurabilityReport; unusable: AckordError | undefined }> {
    const [unusable, { checks }, versions] = await Promise.all([unusableFor(outbox), checkDurability(redis), versionsOf(home)])
    const all = [...checks, ...versions, slots(home), scripts(unusable)].map((check) => ({
      ...check,
      accepted: accept.includes(check.name),
    }))
    const counting = all.filter(({ accepted }) => !accepted)
    const isSome = (state: DurabilityCheck['state']) => counting.some((check) => check.state === state)
    return { report: { state: isSome('violated') ? 'violated' : isSome('unknown') ? 'unknown' : 'ok', checks: all }, unusable }
  }

  function tell(report: LuaDurabilityReport): void {
    lastReport = report
    for (const { name, server, state, text, accepted } of report.checks) {
      if (accepted) continue
      if (state === 'violated') metrics?.count('ackord.outbox.durability_violations', 1, { check: name })
      const key = `${name} ${server}`
      const before = told.get(key) ?? 'ok'
      told.set(key, state)
      if (state === before) continue
      if (state === 'ok') logger.info({ check: name, server }, `The durability of the outbox is as it should be again. ${text}`)
      else logger.warn({ check: name, server, state }, `The durability of the outbox is not what it should be. ${text}`)
    }
    try {
      onReport?.(report)
    } catch (error) {
      logger.error({ err: error }, 'onReport of luaDurability() threw.')
    }
  }

  async function round(): Promise<number> {
    tell((await look()).report)
    return pause()
  }

  const pause = () => interval * (0.9 + 0.2 * runtime.random())
  const runner = new RoundRunner({ name: 'durability check of the outbox', round, runtime, logger, keepAlive: false })
  let starting: Promise<LuaDurabilityReport> | undefined

  async function begin(): Promise<LuaDurabilityReport> {
    const { report, unusable } = await look()
    tell(report)
    if (unusable !== undefined) throw unusable
    const { state } = report
    if (state === 'violated' ? failAtStart !== undefined : state === 'unknown' && failAtStart === 'unknown') throw notDurable(report)
    return report
  }

  async function stop(): Promise<void> {
    // One that is starting does not go on.
    starting = undefined
    await runner.stop()
  }

  return {
    check: async () => (await look()).report,
    async start() {
      if (runner.health().state === 'running' && lastReport !== undefined) return lastReport
      starting ??= begin()
      try {
        const report = await starting
        if (starting !== undefined) runner.start(pause())
        return report
      } finally {
        starting = undefined
      }
    },
    stop,
    health: () => ({ ...runner.health(), lastReport }),
    [Symbol.asyncDispose]: stop,
  }
}

type Found = Omit<LuaDurabilityCheck, 'accepted'>

/** What is wrong with the connection is the caller's to know. */
async function unusableFor(outbox: LuaOutbox): Promise<AckordError | undefined> {
  try {
    await outbox.verify()
    return undefined
  } catch (error) {
    if (isAckordError(error, 'ACKORD_SCHEMA')) return error
    throw error
  }
}

function scripts(unusable: AckordError | undefined): Found {
  const name = 'scripts'
  const server = 'all shards'
  if (unusable !== undefined) return { name, server, state: 'violated', text: unusable.message }
  return { name, server, state: 'ok', text: 'Scripts may do all that they must.' }
}

// A key leads to the node; nothing is read or written under it.
const information: Script = script(`return redis.call('INFO', 'server')`)

function versionsOf({ port, shards }: LuaHome): Promise<readonly Found[]> {
  return Promise.all(
    shards.all.map(async (shard): Promise<Found> => {
      const name = 'version'
      const server = `the one of {${shard.tag}}`
      const found = await port.evaluate(information, [shard.key('state')], []).then(String, notAllowed)
      const version = /^redis_version:(\d+)\.(\S+)/m.exec(found ?? '')
      if (version === null)
        return { name, server, state: 'unknown', text: 'The server does not tell its version. It must be 6.0 or newer.' }
      const [, major = '', rest = ''] = version
      if (Number(major) >= 6) return { name, server, state: 'ok', text: `It is version ${major}.${rest}.` }
      return { name, server, state: 'violated', text: `It is version ${major}.${rest}, and must be 6.0 or newer. Upgrade it.` }
    }),
  )
}

function notAllowed(error: unknown): undefined {
  if (error instanceof Error && /\bNOPERM\b|unknown command|not allowed|can't run this command|ACL failure/i.test(error.message))
    return undefined
  throw error
}

function slots({ port, shards }: LuaHome): Found {
  const name = 'slots'
  const server = 'all shards'
  const spread = shards.all.find((shard) => slotsOf(shard, port.keyPrefix).size > 1)
  if (spread === undefined || !port.cluster) return { name, server, state: 'ok', text: 'The keys of each shard are in one slot.' }
  const text = `The keys of {${spread.tag}} are in several slots: the client's key prefix '${port.keyPrefix}' hides their tag. Take another one.`
  return { name, server, state: 'violated', text }
}

function slotsOf(shard: LuaShard, prefix: string): ReadonlySet<number> {
  return new Set(shard.keys.map((key) => keySlot(prefix + key)))
}

function notDurable({ checks }: LuaDurabilityReport): AckordError {
  const wrong = checks.filter(({ state, accepted }) => !accepted && state !== 'ok')
  const listed = wrong.map(({ name, server, state, text }) => `${name} of ${server} is ${state}: ${text}`).join(' ')
  const text = `The outbox is not as durable as failAtStart wants it. ${listed} What is meant to be so goes into accept.`
  return new AckordError('ACKORD_SCHEMA', text)
}

export interface WaitForReplicasOptions {
  /** How many replicas must have it. */
  readonly replicas: number
  /** Milliseconds. Shorter than the deadline of `redis`. */
  readonly timeout: number
}

/**
 * Waits until replicas have all that was written on this client's connection before, and resolves to how many of them do: fewer than asked for when the time
 * is over. They have it in memory: without a replica, or after all of them are lost, it is no more durable than before. What else is sent on the connection waits as well.
 */
export async function waitForReplicas(redis: Redis, options: WaitForReplicasOptions): Promise<number> {
  const { port, deadline } = internalsOf(redis)
  const { replicas, timeout, ...unknown } = options
  checkNoMore('waitForReplicas()', unknown)
  checkCount('replicas', replicas)
  checkDuration('timeout', timeout, { min: 1 })
  if (timeout >= deadline) throw new InvalidOptionError('timeout', `must be shorter than the deadline of ${deadline} ms; it is ${timeout}.`)
  if (port.cluster)
    throw new InvalidOptionError('waitForReplicas()', 'cannot be used on a cluster: its client does not tell which node it asks.')
  return Number(await port.send({ name: 'WAIT', args: [String(replicas), String(Math.ceil(timeout))], keys: [] }))
}
