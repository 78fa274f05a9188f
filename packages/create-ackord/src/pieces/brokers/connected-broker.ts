import type { BrokerPiece, Imports } from '../piece.ts'

type Connected = Pick<BrokerPiece, 'imports' | 'open' | 'source' | 'publisher' | 'destination' | 'options' | 'close' | 'send'>

interface ConnectedBrokerOptions {
  /** The adapter, in `src/adapters`. */
  readonly file: string
  /** The kind of destination, as in the names of the settings: `ordersQueue`, `eventsQueue`. */
  readonly kind: 'Queue' | 'Subject' | 'Topic' | 'Stream'
  /** An expression. Default: `await connectBroker()`. */
  readonly connect?: string
  /** A statement, or an empty text if there is nothing to close. Default: `await broker.close()`. */
  readonly close?: string
  /** The code with which `src/send.ts` opens a connection to the broker; the service has one already. Default: none. */
  readonly needs?: { readonly imports: Imports; readonly open: string; readonly close: string }
}

/** How programs use a broker whose adapter has `connectBroker()`. */
export function connectedBroker(options: ConnectedBrokerOptions): Connected {
  const { file, kind, connect = 'await connectBroker()', close = 'await broker.close()', needs } = options
  const adapter = { [`./adapters/${file}.ts`]: ['connectBroker'] }
  const open = `const broker = ${connect}`
  return {
    imports: { ...adapter, './settings.ts': [`events${kind}`] },
    open,
    source: 'broker.messages()',
    publisher: 'broker.publisher',
    destination: `events${kind}`,
    options: ['router: { maxDeliveries: 10 }, // a message that fails as often goes to the dead letters'],
    close,
    send: {
      imports: { ...adapter, ...needs?.imports, './settings.ts': [`orders${kind}`] },
      open: [needs?.open, open, 'const { publisher } = broker', 'const events = broker.events()'].filter(Boolean).join('\n'),
      destination: `orders${kind}`,
      close: [close, needs?.close].filter(Boolean).join('\n'),
    },
  }
}
