import type { DescribedMetrics } from './metric-table.ts'
import type { Metrics } from './metrics.ts'
import { consoleLogger, guardLogger, guardMetrics, type Logger, markGuarded } from './observability.ts'

/** The ports that a part shares with the parts that it uses. */
export interface SharedPorts {
  readonly logger?: Logger | undefined
  readonly metrics?: Metrics | undefined
}

/** A source, a publisher, a store, a middleware: whatever another part uses. */
export interface Part {
  /**
   * Called by a part that uses this one, maybe repeatedly, with the ports that it was given itself. They replace the defaults of this part: a port that this part was
   * given wins, then that of the first user. The part passes them on to the parts that it uses. `PartPorts` implements it. Default: the part keeps its defaults.
   */
  inheritPorts?(ports: SharedPorts): void
}

/** The ports of a part: its own, or else those of the first part that uses it. Until then it logs to the console and has no metrics. */
export class PartPorts {
  /** The same object for ever; it follows what is inherited. */
  readonly logger: Logger
  readonly #uses = new Set<Part>()
  /** A part whose logger this one has until it inherits another: the connection that several sources share. */
  readonly #base: PartPorts | undefined
  #logger: Logger | undefined
  #metrics: DescribedMetrics | undefined

  /**
   * `own`: what the part was given. The logger of another part's `PartPorts` counts as a default, not as given. `uses`: the parts that inherit from this one.
   */
  constructor(own: SharedPorts = {}, uses: readonly (Part | undefined)[] = []) {
    const { logger, metrics } = own
    this.#base = logger === undefined ? undefined : following.get(logger)
    for (const part of [this.#base, ...uses]) if (part !== undefined) this.#uses.add(part)
    this.logger = logger === undefined || this.#base !== undefined ? this.#follow() : guardLogger(logger)
    if (this.#base === undefined && logger !== undefined) this.#logger = this.logger
    if (metrics !== undefined) this.#metrics = guardMetrics(metrics)
    this.#passOn()
  }

  get metrics(): DescribedMetrics | undefined {
    return this.#metrics
  }

  /** Bound, so that a part can have it as its own method. */
  readonly inheritPorts = ({ logger, metrics }: SharedPorts): void => {
    // A part that logs where this one does may use it.
    const takesLogger = this.#logger === undefined && logger !== undefined && logger !== this.logger
    const takesMetrics = this.#metrics === undefined && metrics !== undefined
    if (takesLogger) this.#logger = guardLogger(logger)
    if (takesMetrics) this.#metrics = guardMetrics(metrics)
    if (takesLogger || takesMetrics) this.#passOn()
  }

  #passOn(): void {
    const logger = this.#logger
    const metrics = this.#metrics
    if (logger === undefined && metrics === undefined) return
    for (const part of this.#uses) part.inheritPorts?.({ logger, metrics })
  }

  #follow(): Logger {
    const current = () => this.#logger ?? this.#base?.logger ?? fallback
    const logger = markGuarded({
      debug: (fields, text) => current().debug(fields, text),
      info: (fields, text) => current().info(fields, text),
      warn: (fields, text) => current().warn(fields, text),
      error: (fields, text) => current().error(fields, text),
    })
    following.set(logger, this)
    return logger
  }
}

const following = new WeakMap<Logger, PartPorts>()
const fallback = guardLogger(consoleLogger)
