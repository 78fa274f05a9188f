import { AckordError, InvalidOptionError, isAckordError, type Logger, type Metrics } from '@ackord/core'
import {
  checkChoice,
  checkCount,
  checkDuration,
  checkFunction,
  guardLogger,
  guardMetrics,
  rejectUnknownOptions,
} from '@ackord/core/internal'
import { checkDurability, type DurabilityCheck, type DurabilityReport } from '../../check-durability.ts'
import { keySlot } from '../../client/keys.ts'
import { type Script, script } from '../../client/port.ts'
import { internalsOf, type Redis } from '../../transaction/redis.ts'
import { contextOf, type LuaOutboxContext } from './context.ts'
import type { LuaShard } from './layout.ts'
import type { LuaOutbox } from './lua-outbox.ts'
import { RoundRunner, type RunnerHealth } from './round-runner.ts'

const checkNames = ['appendonly', 'appendfsync', 'maxmemory-policy', 'replicas', 'version', 'slots', 'scripts'] as const

export interface LuaDurabilityCheck extends Omit<DurabilityCheck, 'name'> {
  readonly name: (typeof checkNames)[number]
  /** Whether the check is in `accept`: then it does not count. */
  readonly accepted: boolean
}

export interface LuaDurabilityReport {
  /** The worst of the checks that count: `violated`, then `unknown`, then `ok`. */
  readonly state: DurabilityReport['state']
  readonly checks: readonly LuaDurabilityCheck[]
}

export interface LuaDurabilityOptions {
  /** Milliseconds between two checks, ± 10 %. Default: 1 minute. */
  readonly interval?: number | undefined
  /** The findings for which `start()` rejects: violations, or also unknown settings. It always rejects if the outbox cannot work at all. Default: only then. */
  readonly failAtStart?: 'violated' | 'unknown' | undefined
  /** Checks that need not hold, such as `replicas`, or `appendfsync` where the last second may be lost. Default: none. */
  readonly accept?: readonly LuaDurabilityCheck['name'][] | undefined
  /** Called with every report. Default: none. */
  readonly onReport?: ((report: LuaDurabilityReport) => void) | undefined
  /** Logs failed checks, and when they change. Default: the logger of the outbox. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.outbox.durability_violations` at each check, by its name. Default: the metrics of the outbox. */
  readonly metrics?: Metrics | undefined
}

export interface LuaDurabilityHealth extends RunnerHealth {
  readonly lastReport: LuaDurabilityReport | undefined
}

/** Checks whether the records of the outbox survive a crash: at the start, and periodically, since settings change. It does not keep the process alive. */
export interface LuaDurability extends AsyncDisposable {
  check(): Promise<LuaDurabilityReport>
  /** Checks, and rejects as `failAtStart` says; then checks periodically, and only reports. Has no effect if it runs already. */
  start(): Promise<LuaDurabilityReport>
  /** Idempotent in every state. */
  stop(): Promise<void>
  health(): LuaDurabilityHealth
}

/** Checks what `checkDurability()` does, and the version, the slots of the keys, and whether scripts have all permissions. It changes no records. */
export function luaDurability(redis: Redis, outbox: LuaOutbox, options: LuaDurabilityOptions = {}): LuaDurability {
  const context = contextOf(outbox)
  const { interval = 60_000, failAtStart, accept = [], onReport, logger: givenLogger = context.logger, ...ports } = options
  const { metrics: givenMetrics, ...unknown } = ports
  rejectUnknownOptions('luaDurability()', unknown)
  checkDuration('interval', interval, { min: 1 })
  if (failAtStart !== undefined) checkChoice('failAtStart', failAtStart, ['violated', 'unknown'])
  if (!Array.isArray(accept)) throw new InvalidOptionError('accept', 'must be a list of names of checks.')
  for (const name of accept) checkChoice('accept', name, checkNames)
  if (onReport !== undefined) checkFunction('onReport', onReport)
  const logger = guardLogger(givenLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
  const { runtime } = context
  /** The last logged state of each check. */
  const logged = new Map<string, string>()
  let lastReport: LuaDurabilityReport | undefined

  async function look(): Promise<{ report: LuaDurabilityReport; unusable: AckordError | undefined }> {
    const [unusable, { checks }, versions] = await Promise.all([unusableFor(outbox), checkDurability(redis), versionsOf(context)])
    const all = [...checks, ...versions, slots(context), scripts(unusable)].map((check) => ({
      ...check,
      accepted: accept.includes(check.name),
    }))
    const counting = all.filter(({ accepted }) => !accepted)
    const isSome = (state: DurabilityCheck['state']) => counting.some((check) => check.state === state)
    return { report: { state: isSome('violated') ? 'violated' : isSome('unknown') ? 'unknown' : 'ok', checks: all }, unusable }
  }

  function logChanges(report: LuaDurabilityReport): void {
    lastReport = report
    // The outbox may inherit its metrics later.
    const current = metrics ?? context.metrics
    for (const { name, server, state, text, accepted } of report.checks) {
      if (accepted) continue
      if (state === 'violated') current?.count('ackord.outbox.durability_violations', 1, { check: name })
      const key = `${name} ${server}`
      const before = logged.get(key) ?? 'ok'
      logged.set(key, state)
      if (state === before) continue
      if (state === 'ok') logger.info({ check: name, server }, `The durability of the outbox is sufficient again. ${text}`)
      else logger.warn({ check: name, server, state }, `The durability of the outbox is not sufficient. ${text}`)
    }
    try {
      onReport?.(report)
    } catch (error) {
      logger.error({ err: error }, 'onReport of luaDurability() threw.')
    }
  }

  async function round(): Promise<number> {
    logChanges((await look()).report)
    return pause()
  }

  const pause = () => interval * (0.9 + 0.2 * runtime.random())
  const runner = new RoundRunner({ name: 'durability check of the outbox', round, runtime, logger, keepAlive: false })
  let starting: Promise<LuaDurabilityReport> | undefined

  async function begin(): Promise<LuaDurabilityReport> {
    const { report, unusable } = await look()
    logChanges(report)
    if (unusable !== undefined) throw unusable
    const { state } = report
    if (state === 'violated' ? failAtStart !== undefined : state === 'unknown' && failAtStart === 'unknown') throw notDurable(report)
    return report
  }

  async function stop(): Promise<void> {
    // A start that runs at the same time is cancelled.
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

/** Connection errors are rethrown. */
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
  return { name, server, state: 'ok', text: 'Scripts have all permissions that they need.' }
}

// The key selects the node; it is neither read nor written.
const information: Script = script(`return redis.call('INFO', 'server')`)

function versionsOf({ port, shards }: LuaOutboxContext): Promise<readonly Found[]> {
  return Promise.all(
    shards.all.map(async (shard): Promise<Found> => {
      const name = 'version'
      const server = `the one of {${shard.tag}}`
      const found = await port.evaluate(information, [shard.key('state')], []).then(String, notAllowed)
      const version = /^redis_version:(\d+)\.(\S+)/m.exec(found ?? '')
      if (version === null)
        return { name, server, state: 'unknown', text: 'The server does not report its version. It must be 6.0 or newer.' }
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

function slots({ port, shards }: LuaOutboxContext): Found {
  const name = 'slots'
  const server = 'all shards'
  const spread = shards.all.find((shard) => slotsOf(shard, port.keyPrefix).size > 1)
  if (spread === undefined || !port.cluster) return { name, server, state: 'ok', text: 'The keys of each shard are in one slot.' }
  const text = `The keys of {${spread.tag}} are in several slots: the client's key prefix '${port.keyPrefix}' hides their tag. Use another prefix.`
  return { name, server, state: 'violated', text }
}

function slotsOf(shard: LuaShard, prefix: string): ReadonlySet<number> {
  return new Set(shard.keys.map((key) => keySlot(prefix + key)))
}

function notDurable({ checks }: LuaDurabilityReport): AckordError {
  const wrong = checks.filter(({ state, accepted }) => !accepted && state !== 'ok')
  const listed = wrong.map(({ name, server, state, text }) => `${name} of ${server} is ${state}: ${text}`).join(' ')
  const text = `The outbox is not as durable as failAtStart requires. ${listed} List checks that need not hold in accept.`
  return new AckordError('ACKORD_SCHEMA', text)
}

export interface WaitForReplicasOptions {
  /** How many replicas must have the writes. */
  readonly replicas: number
  /** Milliseconds. Shorter than the deadline of `redis`. */
  readonly timeout: number
}

/**
 * Waits until replicas have all writes that were sent on this client's connection before, and resolves to the number of replicas that do: fewer than `replicas` if the time
 * is over. They have them in memory: without a replica, or if all of them are lost, the writes are no more durable than before. Other commands on the connection wait as well.
 */
export async function waitForReplicas(redis: Redis, options: WaitForReplicasOptions): Promise<number> {
  const { port, deadline } = internalsOf(redis)
  const { replicas, timeout, ...unknown } = options
  rejectUnknownOptions('waitForReplicas()', unknown)
  checkCount('replicas', replicas)
  checkDuration('timeout', timeout, { min: 1 })
  if (timeout >= deadline) throw new InvalidOptionError('timeout', `must be shorter than the deadline of ${deadline} ms; it is ${timeout}.`)
  if (port.cluster)
    throw new InvalidOptionError('waitForReplicas()', 'cannot be used on a cluster: its client does not tell which node it asks.')
  return Number(await port.send({ name: 'WAIT', args: [String(replicas), String(Math.ceil(timeout))], keys: [] }))
}
