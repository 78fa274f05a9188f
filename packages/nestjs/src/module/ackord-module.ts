import { checkFunction, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import type { DynamicModule, FactoryProvider, ModuleMetadata, Provider } from '@nestjs/common'
import { type HandlerScope, scopeToken } from '../handlers/assign-handlers.ts'
import { AckordHealthIndicator } from '../instance/ackord-health-indicator.ts'
import type { AckordInstance } from '../instance/ackord-instance.ts'
import type { AckordOptions } from '../instance/options.ts'
import { defaultInstance, getDatabaseToken, getHealthIndicatorToken, getInstanceToken, getOutboxToken } from '../instance/tokens.ts'
import { AckordCoreModule, getOptionsToken, settingsProvider } from './ackord-core-module.ts'
import { getCoreToken } from './list-instances.ts'

export interface AckordModuleOptions {
  /** Distinguishes several instances in one application. Default: the instance without a name. */
  readonly name?: string | undefined
  /** Whether all modules may inject the outbox and the database; `false`: those that import this module or `forFeature()`. Default: true. */
  readonly isGlobal?: boolean | undefined
}

export interface AckordAsyncOptions<Handle = unknown> extends AckordModuleOptions, Pick<ModuleMetadata, 'imports'> {
  /** The tokens of the parameters of `useFactory`. */
  readonly inject?: FactoryProvider['inject'] | undefined
  /** Creates the options. It may connect, and await `createSchema()`. */
  // biome-ignore lint/suspicious/noExplicitAny: the types of the parameters follow from `inject`, which carries none.
  readonly useFactory: (...dependencies: any[]) => AckordOptions<Handle> | Promise<AckordOptions<Handle>>
}

/** Options of `forFeature()`: defaults for the handlers of the module that imports it. */
export type AckordFeatureOptions = HandlerScope

/**
 * Handles messages by methods of providers, and publishes their events. The application starts and stops it.
 *
 *     AckordModule.forRootAsync({
 *       inject: [DataSource],
 *       useFactory: (dataSource: DataSource) => ({ database: fromTypeorm(dataSource), consumer: 'orders', source, publisher, destination: 'order-events' }),
 *     })
 */
export class AckordModule {
  static forRoot<Handle>(options: AckordOptions<Handle> & AckordModuleOptions): DynamicModule {
    const { name, isGlobal, ...own } = options
    // A function: older versions of Nest would turn a value, with the pool in it, into text.
    return AckordModule.forRootAsync<Handle>({ name, isGlobal, useFactory: () => own as AckordOptions<Handle> })
  }

  static forRootAsync<Handle>(options: AckordAsyncOptions<Handle>): DynamicModule {
    const { name = defaultInstance, isGlobal = true, imports, inject, useFactory, ...unknown } = options
    rejectUnknownOptions('AckordModule.forRootAsync()', unknown)
    checkName('name', name)
    checkFunction('useFactory', useFactory)
    const provideOptions: Provider = { provide: getOptionsToken(name), useFactory, ...(inject === undefined ? {} : { inject }) }
    const core = AckordCoreModule.forInstance(name, [provideOptions, settingsProvider(name)], imports)
    return { module: AckordModule, global: isGlobal, imports: [core], ...injectables(name) }
  }

  /** Lets a module inject the outbox and the database of an instance that is not global, and sets the instance and consumer of its handlers. */
  static forFeature(options: AckordFeatureOptions = {}): DynamicModule {
    const { instance = defaultInstance, consumer, ...unknown } = options
    rejectUnknownOptions('AckordModule.forFeature()', unknown)
    checkName('instance', instance)
    if (consumer !== undefined) checkName('consumer', consumer)
    const { providers, exports } = injectables(instance)
    // A class of its own, because Nest tells dynamic modules apart by their class and their providers.
    return { module: AckordFeatureModule, providers: [...providers, { provide: scopeToken, useValue: { instance, consumer } }], exports }
  }
}

class AckordFeatureModule {}

/** The providers that other modules may inject. */
export function injectables(instance: string): { readonly providers: Provider[]; readonly exports: NonNullable<DynamicModule['exports']> } {
  const inject = [getCoreToken(instance)]
  const providers: FactoryProvider[] = [
    { provide: getInstanceToken(instance), inject, useFactory: (own: AckordInstance) => own },
    { provide: getOutboxToken(instance), inject, useFactory: (own: AckordInstance) => own.outbox },
    { provide: getDatabaseToken(instance), inject, useFactory: (own: AckordInstance) => own.database },
    { provide: getHealthIndicatorToken(instance), inject, useFactory: (own: AckordInstance) => new AckordHealthIndicator(own) },
  ]
  if (instance === defaultInstance) {
    providers.push({ provide: AckordHealthIndicator, inject, useFactory: (own: AckordInstance) => new AckordHealthIndicator(own) })
  }
  return { providers, exports: providers.map(({ provide }) => provide) }
}
