import type { Fault, FaultProxy } from '@ackord/testkit'

/** Whether bytes sent by a client contain the moment. Called once per chunk, in order, with its connection; it may keep state. */
export type Recognise = (bytes: Buffer, connection: number) => boolean

/** Counts the injected faults, so that a scenario whose fault never occurred fails. */
export interface ArmedFault {
  readonly hits: number
}

/** Makes the proxy apply the fault to every third chunk that contains the moment, `times` times: so that others are in flight at that time, and some are done. */
export function arm(proxy: FaultProxy, recognise: Recognise, fault: Fault, times: number): ArmedFault {
  const armed = { hits: 0 }
  let seen = 0
  proxy.judge((bytes, connection) => {
    if (!recognise(bytes, connection) || armed.hits >= times) return 'pass'
    seen += 1
    if (seen % 3 !== 0) return 'pass'
    armed.hits += 1
    return fault
  })
  return armed
}

/** Throws unless the fault occurred as often as expected. */
export function checkHappened(what: string, times: number, expected: number): void {
  if (times < expected) throw new Error(`The fault did not happen often enough: ${what} ${times} times, expected ${expected} times.`)
}
