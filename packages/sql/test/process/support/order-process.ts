import { defineEvent, Message, rootContext, silentLogger } from '@ackord/core'
import { defineProcess, when } from '@ackord/outbox'
import { type Database, sqlOutbox, sqlProcesses, transactional } from '../../../src/index.ts'

export interface OrderEvent {
  readonly order: string
  readonly id: string
}

const orderPlaced = defineEvent<OrderEvent>('order.placed')
const orderChanged = defineEvent<OrderEvent>('order.changed')
const stepDone = defineEvent<{ readonly id: string }>('step.done')

interface OrderState {
  readonly log: readonly string[]
}

/** Remembers its events, sends one message for each, and sets a timeout. */
const orderProcess = defineProcess<OrderState>({
  name: 'order',
  state: () => ({ log: [] }),
  startedBy: [
    when(orderPlaced, ({ log }, { data }, step) => {
      step.send(stepDone({ id: data.id }))
      step.timeout('payment', 60_000)
      return { log: [...log, data.id] }
    }),
  ],
  on: [
    when(orderChanged, ({ log }, { data }, step) => {
      step.send(stepDone({ id: data.id }))
      step.timeout('payment', 60_000)
      return { log: [...log, data.id] }
    }),
  ],
  correlate: ({ data }) => (data as OrderEvent).order,
  timeouts: { payment: (state) => state },
  destination: 'order-process',
  source: '/order-process',
})

/** Handles an event of the process, as its delivery would. */
export function orderHandler<Handle>(
  database: Database<Handle>,
): (type: 'order.placed' | 'order.changed', data: OrderEvent) => Promise<void> {
  const handlers = orderProcess.handlers(sqlProcesses(database))
  const middleware = transactional(database, {
    inbox: { consumer: 'order' },
    transaction: { logger: silentLogger },
    outbox: { destination: 'steps' },
  })
  return async (type, data) => {
    const handler = handlers.find((one) => one.type === type)
    if (handler === undefined) throw new Error(`There is no handler for ${type}.`)
    const message = new Message(data, { id: data.id, type, source: '/shop', specversion: '1.0' })
    await middleware((given, context) => handler.handle(given, context))(message, message.context(rootContext()))
  }
}

/** What the process of an order has left: the events in its state, and the messages in the outbox. */
export async function leftOf<Handle>(database: Database<Handle>, order: string) {
  const found = await sqlProcesses(database).get({ process: 'order', id: order })
  const { records } = await sqlOutbox(database, { logger: silentLogger }).list({}, { limit: 1000 })
  const sent = records.map(({ message }) => [message.type, JSON.parse(new TextDecoder().decode(message.data))] as const)
  return {
    log: found === undefined ? [] : (JSON.parse(found.state) as OrderState).log,
    done: sent.filter(([type]) => type === 'step.done').map(([, { id }]) => String(id)),
    timeouts: sent.filter(([type, data]) => type === 'order.timeout' && data.id === order).length,
  }
}
