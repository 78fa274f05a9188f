import type { DynamicModule, MiddlewareConsumer, NestModule, Provider } from '@nestjs/common'
import { Inject } from '@nestjs/common'
import { DiscoveryModule, DiscoveryService, ExternalContextCreator, HttpAdapterHost } from '@nestjs/core'
import { AckordInstance } from '../instance/ackord-instance.ts'
import { InstanceLifecycle } from '../instance/instance-lifecycle.ts'
import { type InstanceSettings, settingsOf } from '../instance/instance-settings.ts'
import { getSettingsToken } from '../instance/tokens.ts'
import { instanceHandlers } from './instance-handlers.ts'
import { getCoreToken } from './list-instances.ts'

const lifecycleToken = 'ackord:lifecycle'
const configurationToken = 'ackord:configuration'
let configurations = 0

/** @internal The token of the options of an instance. */
export function getOptionsToken(instance: string): string {
  return `ackord:options:${instance}`
}

/** One instance. Always global, so that `AckordModule.forFeature()` finds it; what the application may inject is decided by `AckordModule`. */
export class AckordCoreModule implements NestModule {
  readonly #lifecycle: InstanceLifecycle

  constructor(lifecycle: InstanceLifecycle) {
    this.#lifecycle = lifecycle
  }

  configure(_consumer: MiddlewareConsumer): void {
    this.#lifecycle.mountDashboard()
  }

  /** `providers` provide the settings of the instance, under `getSettingsToken()`. */
  static forInstance(instance: string, providers: readonly Provider[], imports: DynamicModule['imports'] = []): DynamicModule {
    configurations += 1
    return {
      module: AckordCoreModule,
      global: true,
      imports: [DiscoveryModule, ...imports],
      providers: [
        ...providers,
        // Nest 10 takes modules with the same text for one, and would ignore a second configuration of an instance.
        { provide: configurationToken, useValue: configurations },
        {
          provide: getCoreToken(instance),
          inject: [getSettingsToken(instance), DiscoveryService, ExternalContextCreator],
          useFactory: (settings: InstanceSettings, discovery: DiscoveryService, creator: ExternalContextCreator) =>
            new AckordInstance(instance, settings, () => instanceHandlers({ instance, settings, discovery, creator })),
        },
        {
          provide: lifecycleToken,
          inject: [getCoreToken(instance), getSettingsToken(instance), HttpAdapterHost],
          useFactory: (own: AckordInstance, settings: InstanceSettings, server: HttpAdapterHost) =>
            new InstanceLifecycle(own, settings, server),
        },
      ],
      exports: [getCoreToken(instance)],
    }
  }
}

// Without the syntax of decorators, which Node cannot run from sources.
Inject(lifecycleToken)(AckordCoreModule, undefined, 0)

/** Makes the settings of an instance of its options. */
export function settingsProvider(instance: string): Provider {
  return { provide: getSettingsToken(instance), inject: [getOptionsToken(instance)], useFactory: settingsOf }
}
