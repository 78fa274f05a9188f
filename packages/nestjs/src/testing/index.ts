export { AckordTestingModule } from './ackord-testing-module.ts'
export type { AssertPublishedOptions, CompiledModule, DeliverOptions, HandledOnceOptions, InstanceOption } from './assertions.ts'
export { assertHandledOnce, assertNothingPublished, assertPublished, deliver } from './assertions.ts'
export type { AckordTestingOptions } from './memory-settings.ts'
