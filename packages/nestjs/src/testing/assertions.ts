import { type Attributes, InvalidOptionError, type Message, type Router } from '@ackord/core'
import { rejectUnknownOptions } from '@ackord/core/internal'
import {
  assertNothingPublished as assertNothingIn,
  assertPublished as assertPublishedIn,
  assertHandledOnce as assertRouterHandledOnce,
  type ExpectedEvent,
  type PublishedEvent,
  type HandledOnceOptions as RouterHandledOnceOptions,
  sourceOf,
  trackedMessage,
} from '@ackord/testkit'
import type { AckordInstance } from '../instance/ackord-instance.ts'
import { getInstanceToken } from '../instance/tokens.ts'

/** A testing module of `@nestjs/testing`, or an application. */
export interface CompiledModule {
  get<T>(token: string, options: { readonly strict: false }): T
}

export interface InstanceOption {
  /** The name of the instance. Default: that without a name. */
  readonly instance?: string | undefined
}

export interface DeliverOptions extends InstanceOption {
  /** Required if the instance has several. */
  readonly consumer?: string | undefined
}

export interface HandledOnceOptions extends DeliverOptions, Pick<RouterHandledOnceOptions<never>, 'state' | 'deliveries'> {}

export interface AssertPublishedOptions extends InstanceOption {
  /** The expected number of events. Default: 1. */
  readonly times?: number | undefined
}

/**
 * Delivers a message to its handler, as a broker does, and resolves when it is acked. Rejects with the error of the handler otherwise. The message is made by its
 * definition, and has an id of its own unless it is given one; one with the id of an earlier message is a duplicate. The application must not have started its consumers.
 */
export async function deliver(module: CompiledModule, message: Message, options: DeliverOptions = {}): Promise<void> {
  const router = routerOf(module, options)
  const tracked = trackedMessage(message.id ?? nextId(), { data: message.data, attributes: attributesOf(message) })
  await router.run(sourceOf(tracked))
  const [call] = tracked.calls
  if (call?.verdict !== 'ack') throw call?.error ?? new Error('The message was not settled.')
}

/** Fails unless exactly one event like this is committed in the outbox and not yet published, or as many as `times` says. Returns these events. */
export async function assertPublished(
  module: CompiledModule,
  expected: ExpectedEvent,
  options: AssertPublishedOptions = {},
): Promise<readonly PublishedEvent[]> {
  const { instance, ...others } = options
  return await assertPublishedIn({ outbox: instanceIn(module, instance).outbox }, expected, others)
}

/** Fails if an event like this is in the outbox; without a description, if there is any. */
export async function assertNothingPublished(
  module: CompiledModule,
  unexpected: ExpectedEvent = {},
  { instance }: InstanceOption = {},
): Promise<void> {
  await assertNothingIn({ outbox: instanceIn(module, instance).outbox }, unexpected)
}

/**
 * Delivers a message several times and fails unless it was handled once: its handler ran once, and later deliveries changed nothing and stored no event. `state` returns
 * what the handler changes. The application must not have started its consumers.
 */
export async function assertHandledOnce(module: CompiledModule, message: Message, options: HandledOnceOptions): Promise<void> {
  const { state, deliveries, instance, consumer, ...unknown } = options
  rejectUnknownOptions('assertHandledOnce()', unknown)
  const { outbox } = instanceIn(module, instance)
  const attributes = { id: message.id ?? nextId(), ...attributesOf(message) }
  const sent = { type: message.type ?? '', data: message.data, attributes }
  await assertRouterHandledOnce(routerOf(module, { instance, consumer }), sent, { state, deliveries, events: { outbox } })
}

function instanceIn(module: CompiledModule, instance: string | undefined): AckordInstance {
  return module.get<AckordInstance>(getInstanceToken(instance), { strict: false })
}

function routerOf(module: CompiledModule, { instance, consumer }: DeliverOptions): Router {
  const { consumers } = instanceIn(module, instance)
  const names = [...consumers.keys()]
  const [only] = names
  const service = consumers.get(consumer ?? only ?? '')
  if (service?.router !== undefined && (consumer !== undefined || names.length === 1)) return service.router
  throw new InvalidOptionError('consumer', `must be one of '${names.join("', '")}'.`)
}

/** Without those that are not set, which would replace the defaults. */
function attributesOf({ attributes }: Message): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))
}

let delivered = 0

/** In the order of delivery, so that failures of a test are the same each time. */
function nextId(): string {
  delivered += 1
  return `test-${delivered}`
}
