import assert, { AssertionError } from 'node:assert'
import { type Attributes, currentContext, messageKey, type Router } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { describeEvent, type EventsIn, readEvents } from './assertions.ts'
import { sourceOf, trackedMessage } from './tracked-message.ts'

/** The message to deliver. */
export interface TestMessage {
  readonly type: string
  /** Sent as JSON. Default: null. */
  readonly data?: unknown
  /** Added to the generated `id` and `source`, or replaces them. */
  readonly attributes?: Attributes | undefined
}

export interface HandledOnceOptions<Transaction> {
  /** Returns the state that the handler changes, as rows or a number. Called before the first delivery, after it, and after the last one. */
  readonly state: () => unknown
  /** Where to look for the events of the handler. Default: events are not checked. */
  readonly events?: EventsIn<Transaction> | undefined
  /** How often the message is delivered. Default: 2. */
  readonly deliveries?: number | undefined
}

/**
 * Delivers a message several times, as brokers do, and fails unless it was handled once: its handler ran once, its effect is stored, and later deliveries
 * changed nothing, stored no event and were not rejected. The router must not be running. With `insideTransaction()` around it, all of this can be rolled back.
 */
export async function assertHandledOnce<Transaction>(
  router: Pick<Router, 'run'>,
  message: TestMessage,
  options: HandledOnceOptions<Transaction>,
): Promise<void> {
  const { deliveries = 2 } = options
  const look = async () => ({
    state: structuredClone(await options.state()),
    events: options.events === undefined ? [] : (await readEvents(options.events)).map(describeEvent),
  })
  const before = await look()
  await deliverOnce(router, message, 1)
  const first = await look()
  if (isSame(before.state, first.state)) throw failure('The first delivery changed nothing.', before, first)
  for (let delivery = 2; delivery <= deliveries; delivery += 1) {
    const runs = await deliverOnce(router, message, delivery)
    const later = await look()
    if (!isSame(first.state, later.state)) throw failure(`Delivery ${delivery} had an effect of its own.`, later, first)
    if (!isSame(first.events, later.events)) throw failure(`Delivery ${delivery} stored events of its own.`, later, first)
    if (runs > 0) throw failure(`The handler ran again at delivery ${delivery}; there is no inbox around it.`, runs, 0)
  }
}

/** Counts how often a handler finished. */
async function deliverOnce(router: Pick<Router, 'run'>, { type, data, attributes }: TestMessage, delivery: number): Promise<number> {
  const tracked = trackedMessage('handled-once', { data, attributes: { type, ...attributes }, deliveryCount: delivery })
  let runs = 0
  const removeProbe = installProbe((point) => {
    // Another router of this process may run at the same time. Only the ambient context tells the two apart.
    const handled = currentContext()?.get(messageKey)
    if (point === 'message.handled' && (handled === undefined || handled.id === tracked.message.id)) runs += 1
  })
  try {
    await router.run(sourceOf(tracked))
  } finally {
    removeProbe()
  }
  const [call] = tracked.calls
  if (call !== undefined && call.verdict !== 'ack') {
    const text = `Delivery ${delivery} was answered with ${call.verdict}: ${String(call.error)}`
    throw new AssertionError({ message: text, actual: call.verdict, expected: 'ack', operator: 'assertHandledOnce' })
  }
  if (delivery === 1 && runs !== 1) throw failure('At the first delivery the handler must run once.', runs, 1)
  return runs
}

function isSame(one: unknown, other: unknown): boolean {
  try {
    assert.deepStrictEqual(one, other)
    return true
  } catch {
    return false
  }
}

function failure(text: string, actual: unknown, expected: unknown): AssertionError {
  const message = `${text}\nIt is:         ${JSON.stringify(actual)}\nIt should be: ${JSON.stringify(expected)}`
  return new AssertionError({ message, actual, expected, operator: 'assertHandledOnce' })
}
