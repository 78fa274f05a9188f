import { httpServer } from '../http-server.ts'
import type { BrokerPiece } from '../piece.ts'

/** CloudEvents over HTTP: messages come in as requests to a route of the service, and events are sent as requests. */
export function http(): BrokerPiece {
  return {
    title: 'HTTP',
    dependencies: ['@ackord/http'],
    files: { 'src/adapters/http.ts': adapter, 'src/http/server.ts': httpServer },
    settings: [
      {
        constant: 'eventsUrl',
        variable: 'EVENTS_URL',
        value: 'http://127.0.0.1:4000/events',
        meaning: 'Where the events of this service go.',
      },
      {
        constant: 'messagesUrl',
        variable: 'MESSAGES_URL',
        value: 'http://127.0.0.1:3000/messages',
        meaning: 'Where `npm run send` sends its messages: this service.',
      },
      {
        constant: 'webhookSecret',
        variable: 'WEBHOOK_SECRET',
        meaning: 'Signs events and verifies messages, as Standard Webhooks has it (`whsec_…`). Without it they are not signed.',
      },
    ],
    imports: { './adapters/http.ts': ['createPublisher', 'createSource'], './settings.ts': ['eventsUrl'] },
    open: 'const requests = createSource()',
    source: 'requests',
    publisher: 'createPublisher()',
    destination: 'eventsUrl',
    options: [],
    close: '',
    route: { path: '/messages', handler: 'requests.handler' },
    send: {
      imports: {
        '@ackord/http': ['toNodeHandler'],
        './adapters/http.ts': ['createPublisher', 'createSource'],
        './http/server.ts': ['listen'],
        './settings.ts': ['eventsUrl', 'messagesUrl'],
      },
      open: `const publisher = createPublisher()
const events = createSource()
const server = await listen(toNodeHandler(events.handler), { port: Number(new URL(eventsUrl).port) })`,
      destination: 'messagesUrl',
      close: 'await server.close()',
    },
    note: `A request is answered after the commit: 200 if the message was handled, now or before, and 500 if it has to be sent again. There are no dead letters, because the sender still has the message.`,
  }
}

const adapter = `import { httpPublisher, httpSource } from '@ackord/http'
import { webhookSecret } from '../settings.ts'

/** Requests as messages. Each is answered when its message is settled. */
export const createSource = () => httpSource(webhookSecret === undefined ? {} : { verify: webhookSecret })

/** Sends messages as requests to their destination, which is a URL. */
export const createPublisher = () => httpPublisher(webhookSecret === undefined ? {} : { sign: webhookSecret })
`
