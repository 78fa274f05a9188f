/** What a process asks a server for. Faults hit calls by these names. */
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

/** What a command makes its handler do. */
export type Behaviour =
  /** It writes and gives events. */
  | 'plain'
  /** It fails after its write, the first time. */
  | 'flaky'
  /** It acks the message itself before it is done, and fails after that, the first time. */
  | 'eager'
  /** It fails for good: the message is rejected. */
  | 'poison'
  /** The first time a statement fails, and the handler goes on as if nothing had been: the database has rolled back by then. */
  | 'careless'
  /** It takes longer than the broker waits for an ack. */
  | 'slow'
  /** The broker never takes its events. */
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

/** How a call goes wrong. After `delay` milliseconds the caller is told that the connection is lost, unless it is the call itself that is late. */
export type CallEffect =
  /** The server never gets it. */
  | 'dropRequest'
  /** The server does it; the answer is lost. */
  | 'dropReply'
  /** The server gets it late. */
  | 'delayRequest'
  /** The answer comes late. */
  | 'delayReply'
  /** The caller stands still for so long when it has sent it, and goes on as if no time had passed. */
  | 'suspend'
  /** The caller dies with the call unsent. */
  | 'crashBefore'
  /** The caller dies when the server has done it. */
  | 'crashAfter'

export type FaultStep =
  /** The broker delivers a message once more than it should. */
  | { readonly kind: 'duplicate'; readonly at: number; readonly source: string; readonly id: string }
  /** The process dies, and another one takes its place. */
  | { readonly kind: 'crash'; readonly at: number; readonly slot: string; readonly downFor: number }
  /** The process stands still, for longer than its leases perhaps, and goes on as if no time had passed. */
  | { readonly kind: 'suspend'; readonly at: number; readonly slot: string; readonly duration: number }
  /** The process is stopped in good order, and another one takes its place. */
  | { readonly kind: 'restart'; readonly at: number; readonly slot: string }
  | { readonly kind: 'outage'; readonly at: number; readonly server: ServerName; readonly duration: number }
  /** Every call takes so many milliseconds more, but no longer than its caller waits: that is no excuse for anything. */
  | { readonly kind: 'slow'; readonly at: number; readonly server: ServerName; readonly duration: number; readonly delay: number }
  /** The first call of this kind from now on goes wrong. */
  | {
      readonly kind: 'call'
      readonly at: number
      readonly operation: Operation
      readonly effect: CallEffect
      readonly delay: number
    }
  /** The broker refuses every second message of the next publish, this once. */
  | { readonly kind: 'refuse'; readonly at: number }

/** One thing that happens from outside: a command is sent, or something goes wrong. */
export type PlanStep = SendStep | FaultStep

/** How many processes there are, and how they are set up. */
export interface SimulationShape {
  /** Processes of the service that all commands are for. */
  readonly orders: number
  /** Processes of another service that gets the same commands; 0 without one. */
  readonly billing: number
  readonly relays: number
  readonly order: 'none' | 'perKey'
  /** Whether published records are kept for a while. */
  readonly retain: boolean
  /** Whether services publish by themselves what they have committed, before a relay finds it. Not where order is kept. */
  readonly hotPath: boolean
  readonly batchSize: number
  /** Messages that a service handles at once. */
  readonly concurrency: number
  /** Whether services handle messages of one key in turn. */
  readonly inTurn: boolean
  /** Whether services try again by themselves before they nack. */
  readonly retries: boolean
  /** Milliseconds by which clocks of processes are wrong, by slot. */
  readonly skews: Readonly<Record<string, number>>
}

/** One history before it happens: all that is sent and all that goes wrong. Instants are milliseconds since the start. */
export interface SimulationPlan {
  /** Latencies, jitter and the like follow from it. */
  readonly seed: number
  readonly shape: SimulationShape
  readonly steps: readonly PlanStep[]
}

/** The names of the processes. */
export function slotsOf({ orders, billing, relays }: SimulationShape): readonly string[] {
  const names = (kind: string, count: number) => Array.from({ length: count }, (_, index) => `${kind}-${index + 1}`)
  return [...names('orders', orders), ...names('billing', billing), ...names('relay', relays)]
}

/** When the last step is over. */
export function endOf({ steps }: SimulationPlan): number {
  return Math.max(0, ...steps.map((step) => step.at + ('duration' in step ? step.duration : 'downFor' in step ? step.downFor : 0)))
}
