import type { Publisher, Source } from '@ackord/core'

/** A broker with what leads to it and away from it. */
interface Carrier extends AsyncDisposable {
  readonly publisher: Publisher
  readonly source: Source
  /** Does to it what its kind says, in the middle of whatever it does, and brings it back with what it has on its disk. */
  crash(): Promise<void>
}

export interface CarrierKind {
  readonly name: string
  /** What `crash()` is. */
  readonly fault: 'is killed' | 'loses its connections' | 'loses its server'
  /** `destination` is where the publisher sends to and what the source reads. */
  open(destination: string): Promise<Carrier>
}
