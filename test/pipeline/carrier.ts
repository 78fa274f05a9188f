import type { Publisher, Source } from '@ackord/core'

/** A broker with its publisher and source. */
interface Carrier extends AsyncDisposable {
  readonly publisher: Publisher
  readonly source: Source
  /** Applies the `fault` of its kind while it is in use, and restarts it with the data on its disk. */
  crash(): Promise<void>
}

export interface CarrierKind {
  readonly name: string
  /** The effect of `crash()`. */
  readonly fault: 'is killed' | 'is restarted' | 'loses its connections' | 'loses its server'
  /** `destination` is the name to which the publisher sends and from which the source reads. */
  open(destination: string): Promise<Carrier>
}
