import { checkName } from '@ackord/core/internal'
import type { DynamicModule } from '@nestjs/common'
import { defaultInstance, getSettingsToken } from '../instance/tokens.ts'
import { AckordCoreModule, getOptionsToken } from '../module/ackord-core-module.ts'
import { type AckordModuleOptions, injectables } from '../module/ackord-module.ts'
import { type AckordTestingOptions, memorySettings } from './memory-settings.ts'

/** The part of `TestingModuleBuilder` of `@nestjs/testing` that is used. */
interface Builder {
  overrideProvider(token: string): { useValue(value: unknown): unknown }
}

/** Ackord in memory, for the tests of an application: the same handlers with inbox and outbox, and no server. */
export class AckordTestingModule {
  /** In place of `AckordModule.forRoot()`, for the test of a module on its own. */
  static forRoot(options: AckordTestingOptions & AckordModuleOptions = {}): DynamicModule {
    const { name = defaultInstance, isGlobal = true, ...own } = options
    checkName('name', name)
    const settings = memorySettings(own)
    const core = AckordCoreModule.forInstance(name, [{ provide: getSettingsToken(name), useFactory: () => settings }])
    return { module: AckordTestingModule, global: isGlobal, imports: [core], ...injectables(name) }
  }

  /**
   * Replaces an instance of the application, whose options are then not read. What they inject is still created; override it, too.
   *
   *     const builder = Test.createTestingModule({ imports: [AppModule] })
   *     const module = await AckordTestingModule.replace(builder).compile()
   */
  static replace<B extends Builder>(builder: B, options: AckordTestingOptions & Pick<AckordModuleOptions, 'name'> = {}): B {
    const { name = defaultInstance, ...own } = options
    checkName('name', name)
    builder.overrideProvider(getOptionsToken(name)).useValue({})
    builder.overrideProvider(getSettingsToken(name)).useValue(memorySettings(own))
    return builder
  }
}
