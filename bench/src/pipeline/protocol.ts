export const brokerNames = ['rabbitmq', 'nats', 'redis', 'memory'] as const
export type BrokerName = (typeof brokerNames)[number]

/** The parts of the pipeline. A process runs one of them; with the in-memory broker, one process runs all. */
export type Role = 'client' | 'orders' | 'relay' | 'shipping'

/** What the parent passes to a process, as its first message. */
export interface Setup {
  readonly broker: BrokerName
  readonly roles: readonly Role[]
  /** Names the schemas, the queues and the streams of one measurement. */
  readonly prefix: string
}

/** The process answers each of them with an `Answer`, one after the other. */
export type Question =
  /** Publishes orders, as fast as the broker confirms them or at an even rate. */
  | { readonly ask: 'publish'; readonly count: number; readonly perSecond?: number | undefined }
  /** Waits until the second service has committed this number of orders since it was asked last. */
  | { readonly ask: 'committed'; readonly count: number }
  | { readonly ask: 'cpu' }
  | { readonly ask: 'stop' }

export interface Answer {
  /** The time of the first publish, or of the last commit: milliseconds on a clock that all processes of the machine share. */
  readonly at?: number | undefined
  /** Milliseconds from the publish of each order to its commit by the second service. */
  readonly latencies?: readonly number[] | undefined
  /** Microseconds of processor time since the process started, user and system. */
  readonly cpu?: number | undefined
  readonly error?: string | undefined
}

/** Unlike `performance.now()`, it has the same origin in every process. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
