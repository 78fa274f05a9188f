import { importStatements } from '../pieces/imports.ts'
import type { BrokerPiece } from '../pieces/piece.ts'

/** `src/send.ts`: the other end of the broker. */
export function sendProgram({ send }: BrokerPiece): string {
  const imports = importStatements(send.imports, {
    'node:crypto': ['randomUUID'],
    '@ackord/core': ['jsonMarshaler', 'type Message', 'marshal', 'publishAll'],
    './application/messages.ts': ['paymentReceived', 'placeOrder'],
  })
  return `// Sends the same command twice, as brokers do now and then, and prints the events of the service.
${imports}

${send.open}

const order = { id: \`o-\${randomUUID().slice(0, 8)}\`, total: 42 }

async function send(message: Message, times: number) {
  // One after the other: over HTTP, a copy that arrives while the first one is being handled may be refused, to be sent again.
  for (let sent = 0; sent < times; sent += 1) {
    await publishAll(publisher, ${send.destination}, [marshal(message, jsonMarshaler)])
  }
  console.log(\`sent      \${message.type} \${JSON.stringify(message.data)}\${times > 1 ? \`, \${times} times\` : ''}\`)
}

/** Answers \`order.placed\` with a payment, and ends with \`order.paid\`. Resolves to the number of \`order.placed\`. */
async function readEvents() {
  let placed = 0
  for await (const event of events.messages({ signal: AbortSignal.timeout(30_000) })) {
    const data = new TextDecoder().decode(event.data)
    await event.ack()
    if (JSON.parse(data).orderId !== order.id) continue // of another order
    console.log(\`received  \${event.type} \${data}\`)
    if (event.type === 'order.paid') return placed
    placed += 1
    await send(paymentReceived({ orderId: order.id }, { id: randomUUID(), source: '/send' }), 1)
  }
  throw new Error('The service did not answer within 30 seconds. Does it run? npm start')
}

const reading = readEvents()
await send(placeOrder(order, { id: randomUUID(), source: '/send' }), 2)
const placed = await reading
console.log(\`The command was sent twice and handled \${placed === 1 ? 'once' : \`\${placed} times\`}.\`)

await Promise.all([events.close(), publisher.close()])
${send.close}`
    .trimEnd()
    .concat('\n')
}
