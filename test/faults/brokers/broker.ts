import type { FaultProxy } from '@ackord/testkit'
import type { Carrier } from '../fault-run.ts'
import type { Recognise } from '../wire.ts'

/** The traffic in which a fault can be placed: an event being published, a command being acked. */
export type BrokerMoment = 'publish' | 'ack'

/** A broker that the service reaches through a proxy, and the test directly. */
export interface FaultBroker extends Carrier, AsyncDisposable {
  /** The proxy that carries this traffic. */
  proxy(moment: BrokerMoment): FaultProxy
  recognise(moment: BrokerMoment): Recognise
}

export interface FaultBrokerKind {
  readonly name: string
  open(): Promise<FaultBroker>
}
