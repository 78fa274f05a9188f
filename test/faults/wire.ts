import type { Fault, FaultProxy } from '@ackord/testkit'

/** Whether bytes that a client sends carry the moment. Asked once about each piece, in their order, with its connection: it may remember. */
export type Recognise = (bytes: Buffer, connection: number) => boolean

/** Counts what the proxy did, so that a scenario whose fault never happened fails. */
export interface ArmedFault {
  readonly hits: number
}

/** The proxy does this to every third piece that carries the moment, so many times: others are in flight then, and some are done. */
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

/** Throws unless the fault happened as often as it was to. */
export function checkHappened(what: string, times: number, expected: number): void {
  if (times < expected) throw new Error(`The fault did not happen: ${what} ${times} times, and should have been ${expected} times.`)
}
