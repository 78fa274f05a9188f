import type { FaultProxy } from '@ackord/testkit'
import type { Carrier } from '../fault-run.ts'
import type { Recognise } from '../wire.ts'

/** What is seen on the way to a broker: an event that is published, a command that is acked. */
export type BrokerMoment = 'publish' | 'ack'

/** A broker that the service reaches by a proxy, and the test by a way of its own. */
export interface FaultBroker extends Carrier, AsyncDisposable {
  /** The way on which this is sent. */
  proxy(moment: BrokerMoment): FaultProxy
  recognise(moment: BrokerMoment): Recognise
}

export interface FaultBrokerKind {
  readonly name: string
  open(): Promise<FaultBroker>
}
