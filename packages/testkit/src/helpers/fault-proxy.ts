import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { systemRuntime } from '@ackord/core'

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

/**
 * What becomes of a piece that a client sends. Small requests are a piece each; a large one is several, of which the first decides.
 * - `pass`: it reaches the server, and the answer the client
 * - `cut before`: the connection is cut, and it never reaches the server
 * - `cut after`: it reaches the server, which carries it out; when the answer comes, the connection is cut instead
 * - `swallow`: half open from now on: neither it nor what the client sends after it reaches the server, and the client is not told
 * - `late`: the client's side is cut at once; it reaches the server when the promise resolves, unless the server has closed by then
 * - `held`: it reaches the server when the promise resolves, unless the client has closed by then; what the client sends after it waits, and is judged then
 */
export type Fault = 'pass' | 'cut before' | 'cut after' | 'swallow' | { readonly late: Promise<void> } | { readonly held: Promise<void> }

/** `connection` numbers the proxy's connections, from 1 on: for a piece that is only known by those before it. */
export type JudgePiece = (bytes: Buffer, connection: number) => Fault

interface FaultLinkOptions {
  readonly host: string
  readonly port: number
  readonly judge: (bytes: Buffer) => Fault
  /** Milliseconds that a piece takes. */
  readonly pauseBefore: (bytes: Buffer) => number
  readonly onLate: (arrival: Promise<void>) => void
  readonly onClosed: () => void
}

/** What is left of a connection's way: all of it; the way to the server, until that answers; the same for late bytes, which are not sent yet; or nothing. */
type State = 'whole' | 'last words' | 'late' | 'cut'

/** One connection of a client, and the one to the server that belongs to it. */
class FaultLink {
  readonly #client: Socket
  readonly #server: Socket
  readonly #options: FaultLinkOptions
  #state: State = 'whole'
  #swallows = false
  #holds = false
  /** What the client has sent after a piece that is held. */
  #behind: Buffer[] | undefined

  constructor(client: Socket, options: FaultLinkOptions) {
    this.#client = client
    this.#server = connect({ host: options.host, port: options.port })
    this.#options = options
    for (const socket of [this.#client, this.#server]) socket.setNoDelay(true).on('error', () => {})
    this.#client.on('close', () => this.#state === 'whole' && this.cut())
    this.#server.on('close', () => this.cut())
    const { pauseBefore } = options
    carry(this.#client, this.#server, { pauseBefore, isHeld: () => false, hand: (bytes) => this.#toServer(bytes) })
    carry(this.#server, this.#client, { pauseBefore, isHeld: () => this.#holds, hand: (bytes) => this.#toClient(bytes) })
  }

  cut(): void {
    if (this.#state === 'cut') return
    this.#state = 'cut'
    this.#client.destroy()
    this.#server.destroy()
    this.#options.onClosed()
  }

  swallow(): void {
    this.#swallows = true
  }

  hold(): void {
    this.#holds = true
    this.#server.pause()
  }

  release(): void {
    this.#holds = false
    this.#server.resume()
  }

  /** Gives whether the receiver has room for more. */
  #toServer(bytes: Buffer): boolean {
    if (this.#state !== 'whole' || this.#swallows) return true
    if (this.#behind !== undefined) {
      this.#behind.push(bytes)
      return true
    }
    const fault = this.#options.judge(bytes)
    if (fault === 'pass') return this.#server.write(bytes)
    if (fault === 'cut before') {
      this.cut()
    } else if (fault === 'swallow') {
      this.#swallows = true
    } else if (fault === 'cut after') {
      this.#state = 'last words'
      this.#server.write(bytes)
    } else if ('held' in fault) {
      this.#behind = []
      void fault.held.then(() => this.#letGo(bytes))
    } else {
      this.#state = 'late'
      this.#client.destroy()
      this.#options.onLate(fault.late.then(() => this.#arriveLate(bytes)))
    }
    return true
  }

  #toClient(bytes: Buffer): boolean {
    if (this.#state === 'whole') return this.#client.write(bytes)
    // Those that come before the late bytes are answers to others.
    if (this.#state === 'last words') this.cut()
    return true
  }

  #letGo(held: Buffer): void {
    const behind = this.#behind ?? []
    this.#behind = undefined
    if (this.#state === 'whole' && !this.#swallows) this.#server.write(held)
    for (const bytes of behind) this.#toServer(bytes)
  }

  async #arriveLate(bytes: Buffer): Promise<void> {
    if (this.#state !== 'late') return
    this.#state = 'last words'
    const answered = once(this.#server, 'close')
    this.#server.write(bytes)
    await answered
  }
}

interface Carrying {
  readonly pauseBefore: (bytes: Buffer) => number
  readonly isHeld: () => boolean
  /** Gives whether there is room for more. */
  readonly hand: (bytes: Buffer) => boolean
}

/** Piece by piece, in their order, as fast as the receiver takes them. */
function carry(from: Socket, to: Socket, { pauseBefore, isHeld, hand }: Carrying): void {
  const goOn = () => {
    if (!isHeld()) from.resume()
  }
  from.on('data', (bytes: Buffer) => {
    const pause = pauseBefore(bytes)
    if (pause > 0) {
      from.pause()
      systemRuntime.setTimeout(() => {
        if (hand(bytes)) goOn()
        else to.once('drain', goOn)
      }, pause)
    } else if (!hand(bytes)) {
      from.pause()
      to.once('drain', goOn)
    }
  })
}
