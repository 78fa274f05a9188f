import type { CallEffect, FaultStep, Operation, ServerName } from '../plan/plan.ts'
import type { Trace } from '../plan/trace.ts'
import type { Ledger } from './ledger.ts'
import type { Scheduler } from './scheduler.ts'
import type { SimulatedProcess } from './simulated-process.ts'

type CallFault = Extract<FaultStep, { kind: 'call' }>

export interface NetworkOptions {
  readonly scheduler: Scheduler
  readonly ledger: Ledger
  readonly trace: Trace
  readonly crash: (process: SimulatedProcess) => void
  readonly suspend: (process: SimulatedProcess, duration: number) => void
  /** Called with the process whose call is hit by a fault. */
  readonly onFault: (process: SimulatedProcess) => void
}

const databaseOperations: ReadonlySet<Operation> = new Set([
  'begin',
  'record',
  'write',
  'append',
  'commit',
  'rollback',
  'cleanInbox',
  'claim',
  'renew',
  'release',
  'settle',
  'leave',
  'cleanOutbox',
])

/** The network between processes and servers. Every call takes time, and may be hit by a fault of the plan. */
export class Network {
  readonly #options: NetworkOptions
  readonly #armed: CallFault[] = []
  readonly #down = new Set<ServerName>()
  readonly #slow: Record<ServerName, number> = { database: 0, broker: 0 }
  #faultsUnderWay = 0

  constructor(options: NetworkOptions) {
    this.#options = options
  }

  /** The number of current calls that were hit by a fault. */
  get faultsUnderWay(): number {
    return this.#faultsUnderWay
  }

  /** The next call of this kind is hit by the fault. */
  arm(fault: CallFault): void {
    this.#armed.push(fault)
  }

  /** Removes the faults that have not hit a call yet. */
  disarm(): void {
    this.#armed.length = 0
  }

  setDown(server: ServerName, down: boolean): void {
    if (down) this.#down.add(server)
    else this.#down.delete(server)
  }

  /** Adds milliseconds to every call to a server. */
  setSlow(server: ServerName, delay: number): void {
    this.#slow[server] = delay
  }

  /** Sends a notification from a server to a process. It may be lost. */
  tell(process: SimulatedProcess, run: () => void): void {
    if (process.random.chance(0.1)) return
    this.#options.scheduler.after(latency(process), run, process)
  }

  /** Calls a server for a process. Rejects when the connection is lost; the outcome of the call is then unknown. */
  call<T>(process: SimulatedProcess, operation: Operation, what: string, serve: () => T | Promise<T>): Promise<T> {
    const { scheduler, ledger, trace, crash, suspend, onFault } = this.#options
    if (process.state === 'ended') return new Promise(() => {})
    ledger.calls(process.name, operation)
    const fault = this.#take(operation)
    const excuse = fault === undefined ? undefined : ledger.excuse()
    const note = () => excuse && ledger.hit(excuse, process.name)
    note()
    if (fault !== undefined) {
      onFault(process)
      this.#faultsUnderWay += 1
    }
    const over = () => {
      if (fault !== undefined) this.#faultsUnderWay -= 1
    }
    trace.add(process.name, `${operation} ${what}${fault === undefined ? '' : ` [${fault.effect} ${fault.delay}]`}`)
    if (fault?.effect === 'crashBefore') {
      // The process does not die in the middle of its synchronous code: it runs up to the next await, and no further.
      scheduler.after(0, () => {
        over()
        crash(process)
      })
      return new Promise(() => {})
    }
    if (fault?.effect === 'suspend') scheduler.after(0, () => suspend(process, fault.delay))
    return new Promise<T>((resolve, reject) => {
      const reply = (delay: number, run: () => void) => scheduler.after(delay + latency(process), run, process)
      const lost = (delay: number) => reply(delay, () => reject(new Error(`The connection was lost during ${operation}.`)))
      const arrive = async () => {
        if (this.#down.has(serverOf(operation))) {
          over()
          lost(0)
          return
        }
        const answer = await outcome(serve)
        note()
        over()
        if (fault?.effect === 'crashAfter') crash(process)
        else if (fault?.effect === 'dropReply') lost(fault.delay)
        else reply(delayOf(fault, 'delayReply'), () => ('error' in answer ? reject(answer.error) : resolve(answer.value)))
      }
      if (fault?.effect === 'dropRequest') {
        over()
        lost(fault.delay)
      } else scheduler.after(latency(process) + this.#slow[serverOf(operation)] + delayOf(fault, 'delayRequest'), () => void arrive())
    })
  }

  #take(operation: Operation): CallFault | undefined {
    const index = this.#armed.findIndex((fault) => fault.operation === operation)
    return index < 0 ? undefined : this.#armed.splice(index, 1)[0]
  }
}

function serverOf(operation: Operation): ServerName {
  return databaseOperations.has(operation) ? 'database' : 'broker'
}

function delayOf(fault: CallFault | undefined, effect: CallEffect): number {
  return fault?.effect === effect ? fault.delay : 0
}

function latency(process: SimulatedProcess): number {
  return process.random.between(1, 8)
}

async function outcome<T>(serve: () => T | Promise<T>): Promise<{ readonly value: T } | { readonly error: unknown }> {
  try {
    return { value: await serve() }
  } catch (error) {
    return { error }
  }
}
