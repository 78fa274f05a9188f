import type { AckordInstance } from './ackord-instance.ts'

/** The result of a health indicator of `@nestjs/terminus`, from version 11. */
export type HealthIndicatorResult<Key extends string> = Record<Key, AckordStatus>

export interface AckordStatus {
  readonly status: 'up' | 'down'
  readonly state: string
  /** The consumers that handle no messages, with the reason where it is known. */
  readonly failedConsumers: readonly string[]
  readonly downDestinations: readonly string[]
  readonly store: 'up' | 'down' | 'unknown'
}

/** For `@nestjs/terminus`: `health.check([() => ackord.isHealthy('ackord')])`. */
export class AckordHealthIndicator {
  readonly #instance: AckordInstance

  constructor(instance: AckordInstance) {
    this.#instance = instance
  }

  /** Asks no server: what the router and the relay know already is enough. */
  isHealthy<Key extends string = 'ackord'>(key: Key = 'ackord' as Key): HealthIndicatorResult<Key> {
    const { healthy, state, consumers, publishing } = this.#instance.health()
    const failed = Object.entries(consumers).filter(([, consumer]) => !consumer.healthy)
    const result: AckordStatus = {
      status: healthy ? 'up' : 'down',
      state,
      failedConsumers: failed.map(([name, { error }]) => (error === undefined ? name : `${name}: ${error.message}`)),
      downDestinations: publishing?.relay?.downDestinations ?? [],
      store: publishing?.relay?.store ?? 'unknown',
    }
    // An object with a computed key of a generic type has no type of its own.
    return { [key]: result } as HealthIndicatorResult<Key>
  }
}
