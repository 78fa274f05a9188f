import type { Timer } from '@ackord/core'
import type { BeforeApplicationShutdown, OnApplicationBootstrap, OnApplicationShutdown, OnModuleInit } from '@nestjs/common'
import type { HttpAdapterHost } from '@nestjs/core'
import type { AckordInstance } from './ackord-instance.ts'
import type { InstanceSettings } from './instance-settings.ts'
import type { MountedDashboard } from './options.ts'
import { warnWithoutSignals } from './warn-without-signals.ts'

const dashboardPath = '/ackord'

/**
 * Runs an instance for as long as the application runs. Handlers finish and the relay stops before the HTTP server is closed; publishers and what `onClose` closes
 * follow after it, because requests may store events until then.
 */
export class InstanceLifecycle implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown {
  readonly #instance: AckordInstance
  readonly #settings: InstanceSettings
  readonly #server: HttpAdapterHost
  #dashboard: MountedDashboard | undefined
  #warning: Timer | undefined

  constructor(instance: AckordInstance, settings: InstanceSettings, server: HttpAdapterHost) {
    this.#instance = instance
    this.#settings = settings
    this.#server = server
  }

  /** Before the routes of the application, so that a route for all paths does not hide it. An application without an HTTP server has no dashboard. */
  mountDashboard(): void {
    const { dashboard, store, logger, runtime } = this.#settings
    const adapter = this.#server.httpAdapter
    if (dashboard === undefined || !adapter) return
    const { name } = this.#instance
    const mounted = dashboard({
      stores: { [name]: store.outbox },
      inboxes: { [name]: store.inbox },
      basePath: name === 'default' ? dashboardPath : `${dashboardPath}/${name}`,
      logger,
      runtime,
    })
    this.#dashboard = mounted
    adapter.use(mounted.node)
  }

  async onModuleInit(): Promise<void> {
    // First the handlers: their errors need no database.
    this.#instance.prepare()
    await this.#settings.store.check()
  }

  onApplicationBootstrap(): void {
    const { starts, logger, runtime } = this.#settings
    if (!starts) return
    this.#instance.start()
    this.#warning = warnWithoutSignals({ logger, runtime })
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.#warning?.cancel()
    // Its open streams would keep the HTTP server from closing.
    await Promise.all([this.#dashboard?.close(), this.#instance.stop()])
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#instance.close()
  }
}
