import { importStatements } from '../pieces/imports.ts'
import type { BrokerPiece, Imports, ServedFrameworkPiece, StorePiece } from '../pieces/piece.ts'

/** `src/main.ts`: puts the parts together and runs until a signal. */
export function mainProgram(store: StorePiece, broker: BrokerPiece, framework: ServedFrameworkPiece): string {
  const application: Imports = {
    './application/messages.ts': framework.hasRoutes ? ['eventSource', 'orderPlaced'] : ['eventSource'],
    './application/place-order.ts': ['placeOrderHandler'],
    './application/record-payment.ts': ['recordPaymentHandler'],
    ...(framework.hasRoutes ? { './domain/order.ts': ['type Order'] } : {}),
  }
  const closing = [framework.close ?? '', broker.close, store.close].filter((statement) => statement !== '')
  const head = closing.some((statement) => statement.startsWith('await ')) ? 'async onClose() {' : 'onClose() {'
  const onClose = [head, ...closing.map((statement) => `  ${statement}`), '},']
  const options = [...broker.options, ...store.options, ...framework.options]
  const blocks = [
    importStatements(store.imports, broker.imports, framework.imports, application),
    [store.open, broker.open, `const orders = ${store.orders}`, framework.open].filter(Boolean).join('\n'),
    `const service = createService({
  ${store.handle},
  consumer: 'orders', // the inbox remembers under this name which messages were handled
  source: ${broker.source},
  handlers: [placeOrderHandler(orders), recordPaymentHandler(orders)],
  publisher: ${broker.publisher},
  destination: ${broker.destination},
  eventSource,
  concurrency: 8,
${[...options, ...onClose].map((line) => `  ${line}`).join('\n')}
})`,
    framework.hasRoutes ? placeOrder(store.handle) : undefined,
    `${framework.listen}
await service.runUntilSignal() // SIGTERM or SIGINT: finishes what it is doing, then closes everything`,
  ]
  return `${blocks.filter((block) => block !== undefined).join('\n\n')}\n`
}

function placeOrder(handle: string): string {
  return `// Without a message: the order and its event are stored in one transaction, so that neither exists without the other.
const placeOrder = (order: Order) =>
  ${handle}.write(async (transaction) => {
    const isNew = await orders.add(order)
    if (isNew) await service.outbox.append(transaction, orderPlaced({ orderId: order.id, total: order.total }))
    return isNew
  })`
}
