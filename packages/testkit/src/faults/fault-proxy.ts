import { once } from 'node:events'
import { createServer } from 'node:net'
import { FaultLink, type JudgePiece } from './fault-link.ts'

/** A way to a server on which a test makes connections fail. What is said of connections is said of the present ones, unless it says otherwise. */
export interface FaultProxy extends AsyncDisposable {
  /** The server's, by this way: with its user, password and path. */
  readonly url: string
  readonly port: number
  /** How many connections go through it. */
  readonly connections: number
  /** Ends all connections, without a word to either side. */
  cut(): void
  /** Half open: what clients send does not arrive any more, and they are not told. */
  swallow(): void
  /** What the server sends is kept until it is released, on new connections too. */
  hold(): void
  release(): void
  /** New connections are refused from now on, or taken again. */
  refuse(refused: boolean): void
  /** From now on, decides what becomes of each piece that a client sends, on new connections too. Without a function all pass. */
  judge(judge?: JudgePiece): void
  /** From now on, each piece takes so long, in both directions, and on new connections too. `bytesPerSecond` adds to that what its size takes. Without options: at once. */
  slow(options?: SlowOptions): void
  /** Resolves when nothing that is late is on its way to the server any more. */
  idle(): Promise<void>
}

export interface SlowOptions {
  /** Milliseconds. Default: 0. */
  readonly delay?: number | undefined
  /** Default: no limit. */
  readonly bytesPerSecond?: number | undefined
}

/** `target` is the server's URL, of any protocol over TCP; TLS goes through unread. `judge` as `judge()` takes it. */
export async function startFaultProxy(target: string, judge: JudgePiece = pass): Promise<FaultProxy> {
  const url = new URL(target)
  const links = new Set<FaultLink>()
  const late = new Set<Promise<void>>()
  let accepted = 0
  let refused = false
  let holding = false
  let judging = judge
  let slowness: SlowOptions = {}
  const server = createServer((client) => {
    if (refused) {
      client.on('error', () => {})
      client.destroy()
      return
    }
    accepted += 1
    const connection = accepted
    const link: FaultLink = new FaultLink(client, {
      host: url.hostname,
      port: Number(url.port),
      judge: (bytes) => judging(bytes, connection),
      pauseBefore: (bytes) => pauseOf(slowness, bytes),
      onLate(arrival) {
        late.add(arrival)
        void arrival.finally(() => late.delete(arrival))
      },
      onClosed: () => links.delete(link),
    })
    links.add(link)
    if (holding) link.hold()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port.')

  return {
    url: urlBy(url, address.port),
    port: address.port,
    get connections() {
      return links.size
    },
    cut() {
      for (const link of [...links]) link.cut()
    },
    swallow() {
      for (const link of links) link.swallow()
    },
    hold() {
      holding = true
      for (const link of links) link.hold()
    },
    release() {
      holding = false
      for (const link of links) link.release()
    },
    refuse(now) {
      refused = now
    },
    judge(next = pass) {
      judging = next
    },
    slow(options = {}) {
      slowness = options
    },
    async idle() {
      await Promise.all(late)
    },
    async [Symbol.asyncDispose]() {
      for (const link of [...links]) link.cut()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Cuts a connection on which a client sends this text, in any case: before the server gets it, or when the server has answered. */
export function cutAt(text: string, when: 'before' | 'after'): JudgePiece {
  const searched = text.toUpperCase()
  return (bytes) => (bytes.toString('latin1').toUpperCase().includes(searched) ? `cut ${when}` : 'pass')
}

function pass(): 'pass' {
  return 'pass'
}

function pauseOf({ delay = 0, bytesPerSecond = Infinity }: SlowOptions, bytes: Buffer): number {
  return delay + (1000 * bytes.length) / bytesPerSecond
}

/** Written out: `URL` does not let the port of a protocol be changed that it does not know. */
function urlBy({ protocol, username, password, pathname, search }: URL, port: number): string {
  const login = username === '' && password === '' ? '' : `${username}${password === '' ? '' : `:${password}`}@`
  return `${protocol}//${login}127.0.0.1:${port}${pathname}${search}`
}
