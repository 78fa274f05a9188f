import { RandomStream } from './trace.ts'

/** The calls from processes to servers. Faults select calls by these names. */
export type Operation =
  | 'begin'
  | 'record'
  | 'write'
  | 'append'
  | 'commit'
  | 'rollback'
  | 'cleanInbox'
  | 'claim'
  | 'renew'
  | 'release'
  | 'settle'
  | 'leave'
  | 'cleanOutbox'
  | 'receive'
  | 'ack'
  | 'nack'
  | 'publish'
  | 'deadLetter'

export type ServerName = 'database' | 'broker'

/** The behaviour of the handler of a command. */
export type Behaviour =
  /** Writes and returns events. */
  | 'plain'
  /** Fails after its write, the first time. */
  | 'flaky'
  /** Acks the message itself before it is done, and then fails, the first time. */
  | 'eager'
  /** Fails permanently: the message is rejected. */
  | 'poison'
  /** The first time, a statement fails and the handler ignores it, although the database has rolled back. */
  | 'careless'
  /** Takes longer than the broker waits for an ack. */
  | 'slow'
  /** Returns events that the broker never accepts. */
  | 'unpublishable'

export interface SendStep {
  readonly kind: 'send'
  readonly at: number
  readonly source: string
  readonly id: string
  readonly key: string
  readonly events: number
  readonly behaviour: Behaviour
}

/** The effect of a fault on a call. After `delay` milliseconds the caller sees a lost connection, except where `delay` is the delay itself. */
export type CallEffect =
  /** The server never receives the call. */
  | 'dropRequest'
  /** The server carries out the call, but the reply is lost. */
  | 'dropReply'
  /** The server receives the call late. */
  | 'delayRequest'
  /** The reply arrives late. */
  | 'delayReply'
  /** The caller is suspended for `delay` after it has sent the call, and continues as if no time had passed. */
  | 'suspend'
  /** The caller dies before it sends the call. */
  | 'crashBefore'
  /** The caller dies after the server has carried out the call. */
  | 'crashAfter'

export type FaultStep =
  /** The broker delivers a message once too often. */
  | { readonly kind: 'duplicate'; readonly at: number; readonly source: string; readonly id: string }
  /** The process dies and is replaced. */
  | { readonly kind: 'crash'; readonly at: number; readonly slot: string; readonly downFor: number }
  /** The process is suspended, possibly for longer than its leases, and continues as if no time had passed. */
  | { readonly kind: 'suspend'; readonly at: number; readonly slot: string; readonly duration: number }
  /** The process is stopped gracefully and replaced. */
  | { readonly kind: 'restart'; readonly at: number; readonly slot: string }
  | { readonly kind: 'outage'; readonly at: number; readonly server: ServerName; readonly duration: number }
  /** Every call takes that many milliseconds longer, but less than its caller waits, so this fault explains no violation. */
  | { readonly kind: 'slow'; readonly at: number; readonly server: ServerName; readonly duration: number; readonly delay: number }
  /** The next call of this kind fails. */
  | {
      readonly kind: 'call'
      readonly at: number
      readonly operation: Operation
      readonly effect: CallEffect
      readonly delay: number
    }
  /** The broker refuses every second message of the next publish. */
  | { readonly kind: 'refuse'; readonly at: number }

/** One external event: a command is sent or a fault occurs. */
export type PlanStep = SendStep | FaultStep

/** The number of processes and their configuration. */
export interface SimulationShape {
  /** The number of processes of the service that receives all commands. */
  readonly orders: number
  /** The number of processes of a second service that receives the same commands; 0 for none. */
  readonly billing: number
  readonly relays: number
  readonly order: 'none' | 'perKey'
  /** Whether published records are kept for a while. */
  readonly retain: boolean
  /** Whether services publish committed events themselves, before a relay claims them. Not with order per key. */
  readonly hotPath: boolean
  readonly batchSize: number
  /** The number of messages that a service handles concurrently. */
  readonly concurrency: number
  /** Whether services handle messages of one key in order. */
  readonly inTurn: boolean
  /** Whether services retry in the process before they nack. */
  readonly retries: boolean
  /** The clock error of processes in milliseconds, by slot. */
  readonly skews: Readonly<Record<string, number>>
}

/** The script of one history: all commands and all faults. Instants are milliseconds since the start. */
export interface SimulationPlan {
  /** Determines latencies, jitter and other random values. */
  readonly seed: number
  readonly shape: SimulationShape
  readonly steps: readonly PlanStep[]
}

/** The names of the processes. */
export function slotsOf({ orders, billing, relays }: SimulationShape): readonly string[] {
  const names = (kind: string, count: number) => Array.from({ length: count }, (_, index) => `${kind}-${index + 1}`)
  return [...names('orders', orders), ...names('billing', billing), ...names('relay', relays)]
}

/** The end of the last step. */
export function endOf({ steps }: SimulationPlan): number {
  return Math.max(0, ...steps.map((step) => step.at + ('duration' in step ? step.duration : 'downFor' in step ? step.downFor : 0)))
}

/** Generates the plan of a seed. */
export function generatePlan(seed: number): SimulationPlan {
  const random = new RandomStream(seed, 'plan')
  const shape = generateShape(random)
  const sends = generateSends(random)
  // Some histories have no faults, so no fault can explain a violation.
  const faults = random.chance(0.12) ? [] : generateFaults(random, shape, sends)
  return { seed, shape, steps: [...sends, ...faults].toSorted((one, other) => one.at - other.at) }
}

function generateShape(random: RandomStream): SimulationShape {
  const order = random.chance(0.4) ? 'perKey' : 'none'
  const shape = {
    orders: random.between(1, 3),
    billing: random.pick([0, 0, 1, 2]),
    relays: random.between(1, 3),
    order,
    hotPath: random.chance(0.4) && order === 'none',
    retain: random.chance(0.5),
    batchSize: random.pick([1, 3, 20]),
    concurrency: random.pick([1, 1, 4]),
    inTurn: random.chance(0.3),
    retries: random.chance(0.3),
  } satisfies Omit<SimulationShape, 'skews'>
  const slots = slotsOf({ ...shape, skews: {} })
  const skewed = slots.filter(() => random.chance(0.25)).map((slot) => [slot, random.between(-7_200_000, 7_200_000)])
  return { ...shape, skews: Object.fromEntries(skewed) }
}

function generateSends(random: RandomStream): SendStep[] {
  const count = random.between(3, 18)
  const span = random.pick([200, 5000, 30_000])
  return Array.from({ length: count }, (_, index): SendStep => {
    // Two producers may use the same ids.
    const twin = index > 0 && random.chance(0.15)
    return {
      kind: 'send',
      at: random.between(0, span),
      source: twin ? '/app' : '/shop',
      id: `c${twin ? index : index + 1}`,
      key: `k${random.between(1, 4)}`,
      events: random.pick([0, 1, 1, 2, 3]),
      behaviour: behaviourOf(random),
    }
  })
}

function behaviourOf(random: RandomStream): Behaviour {
  if (random.chance(0.7)) return 'plain'
  return random.pick(['flaky', 'flaky', 'eager', 'poison', 'careless', 'careless', 'slow', 'unpublishable'])
}

const operations: readonly [Operation, ...Operation[]] = [
  'begin',
  'record',
  'write',
  'append',
  'commit',
  'commit',
  'commit',
  'rollback',
  'claim',
  'release',
  'settle',
  'settle',
  'renew',
  'receive',
  'ack',
  'ack',
  'nack',
  'publish',
  'publish',
  'publish',
  'deadLetter',
]

const effects: readonly [CallEffect, ...CallEffect[]] = [
  'dropRequest',
  'dropReply',
  'dropReply',
  'delayRequest',
  'delayReply',
  'suspend',
  'suspend',
  'crashBefore',
  'crashAfter',
]

function generateFaults(random: RandomStream, shape: SimulationShape, sends: readonly SendStep[]): PlanStep[] {
  const duplicates = sends
    .filter(() => random.chance(0.25))
    .map(({ at, source, id }): FaultStep => {
      const later = random.pick([50, 3000, 20_000, 120_000])
      return { kind: 'duplicate', at: at + random.between(0, later), source, id }
    })
  // A fault has no effect at a time without activity.
  const busy = Math.max(...sends.map(({ at }) => at)) + 500
  const faults = Array.from({ length: random.between(1, 8) }, () => generateFault(random, shape, busy))
  return [...duplicates, ...faults, ...(random.chance(0.15) ? generateZombie(random, busy) : [])]
}

/** A relay is suspended with records in flight, and continues after another relay has claimed them. By chance this is rare: once in thousands of histories. */
function generateZombie(random: RandomStream, busy: number): FaultStep[] {
  const at = random.between(0, busy)
  return [
    { kind: 'slow', at, server: 'broker', duration: 40_000, delay: random.between(1500, 3000) },
    { kind: 'call', at, operation: 'publish', effect: 'suspend', delay: random.between(10_000, 17_000) },
  ]
}

function generateFault(random: RandomStream, shape: SimulationShape, busy: number): FaultStep {
  const at = random.between(0, random.pick([busy, busy, busy + 20_000]))
  const slots = slotsOf(shape)
  const slot = slots[random.between(0, slots.length - 1)] ?? 'orders-1'
  const kind = random.next()
  if (kind < 0.4) {
    const delay = random.pick([random.between(1, 50), random.between(100, 5000), random.between(9000, 20_000)])
    return { kind: 'call', at, operation: random.pick(operations), effect: random.pick(effects), delay }
  }
  if (kind < 0.52) return { kind: 'crash', at, slot, downFor: random.pick([random.between(10, 500), random.between(1000, 20_000)]) }
  if (kind < 0.66) return { kind: 'suspend', at, slot, duration: random.pick([random.between(100, 3000), random.between(8000, 40_000)]) }
  if (kind < 0.73) return { kind: 'restart', at, slot }
  const server: ServerName = random.pick(['database', 'broker', 'broker'])
  if (kind < 0.86) return { kind: 'outage', at, server, duration: random.pick([random.between(100, 3000), random.between(10_000, 60_000)]) }
  if (kind < 0.95) return { kind: 'slow', at, server, duration: random.between(1000, 30_000), delay: random.between(50, 3000) }
  return { kind: 'refuse', at }
}
