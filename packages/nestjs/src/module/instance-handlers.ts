import type { Handler, Logger } from '@ackord/core'
import { type DiscoveryService, type ExternalContextCreator, MetadataScanner } from '@nestjs/core'
import { askedConsumer, consumerOf, instanceOf } from '../handlers/assign-handlers.ts'
import { createHandler } from '../handlers/create-handler.ts'
import { type FoundHandler, findHandlers, findUnprovided, rejectSecondHandler } from '../handlers/find-handlers.ts'
import { methodRunner } from '../handlers/method-runner.ts'
import type { HandlersByConsumer } from '../instance/ackord-instance.ts'
import type { InstanceSettings } from '../instance/instance-settings.ts'
import { defaultInstance } from '../instance/tokens.ts'
import { listInstances } from './list-instances.ts'

export interface InstanceHandlersParts {
  readonly instance: string
  readonly settings: InstanceSettings
  readonly discovery: DiscoveryService
  readonly creator: ExternalContextCreator
}

/** The consumer of handlers that name none, where any consumer is created on demand. */
const unnamedConsumer = 'default'

/** Finds the handlers of an instance among the providers of the application. */
export function instanceHandlers({ instance, settings, discovery, creator }: InstanceHandlersParts): HandlersByConsumer {
  const { consumers, anyConsumer, eventSource, logger } = settings
  const instances = listInstances(discovery)
  const all = findHandlers(discovery, new MetadataScanner())
  const own = all.filter((found) => instanceOf(found, instances, defaultInstance) === instance)
  if (anyConsumer === undefined && consumers.size > 0) warnAboutUnprovided(all, logger)
  const found = new Map<string, Map<string, FoundHandler>>()
  const handlers = new Map<string, Handler[]>()
  for (const one of own) {
    const consumer = anyConsumer === undefined ? consumerOf(one, [...consumers.keys()]) : (askedConsumer(one) ?? unnamedConsumer)
    const handler = createHandler(one, methodRunner(one, { creator, logger }), eventSource)
    const types = found.get(consumer) ?? new Map<string, FoundHandler>()
    rejectSecondHandler(types, handler.type, one)
    found.set(consumer, types.set(handler.type, one))
    handlers.set(consumer, [...(handlers.get(consumer) ?? []), handler])
  }
  return handlers
}

/** Not an error: a process with several applications loads the classes of all of them. */
function warnAboutUnprovided(all: readonly FoundHandler[], logger: Logger): void {
  for (const name of findUnprovided(all)) {
    logger.warn(
      { class: name },
      'A class has methods with @OnEvent() or @OnCommand(), and no module of this application provides it. Its handlers do not run.',
    )
  }
}
