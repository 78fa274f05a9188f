import { createNoopMeter, type Meter, type MeterProvider, metrics } from '@opentelemetry/api'
import { scope, version } from '../version.ts'

/**
 * Instruments of the current meter provider, created at their first use. OpenTelemetry's global meter provider is not a proxy, unlike the one for tracers: an instrument
 * that was created before the SDK is registered would never record anything. So the provider is asked for at each use, and its instruments are kept as long as it is the same.
 */
export class MeterInstruments {
  readonly #given: MeterProvider | undefined
  readonly #onProvider: ((instruments: MeterInstruments) => void) | undefined
  #provider: MeterProvider | undefined
  #meter: Meter | undefined
  #instruments = new Map<string, unknown>()

  /** `onProvider`: called when there is another provider, before its first instrument is used. */
  constructor(given: MeterProvider | undefined, onProvider?: (instruments: MeterInstruments) => void) {
    this.#given = given
    this.#onProvider = onProvider
  }

  /** Whether there is an SDK. Without one, callers need not prepare what they would record. */
  isOn(): boolean {
    return this.#current() !== noMeter
  }

  get<Instrument>(name: string, create: (meter: Meter) => Instrument): Instrument {
    const meter = this.#current()
    const known = this.#instruments.get(name)
    if (known !== undefined) return known as Instrument
    const created = create(meter)
    this.#instruments.set(name, created)
    return created
  }

  #current(): Meter {
    const provider = this.#given ?? metrics.getMeterProvider()
    if (provider !== this.#provider) {
      this.#provider = provider
      this.#meter = provider.getMeter(scope, version)
      this.#instruments = new Map()
      if (this.#meter !== noMeter) this.#onProvider?.(this)
    }
    return this.#meter as Meter
  }
}

/** The meter that the provider returns without an SDK. */
const noMeter = createNoopMeter()
