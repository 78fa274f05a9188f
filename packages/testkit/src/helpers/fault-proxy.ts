import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { systemRuntime } from '@ackord/core'

/** A TCP proxy in front of a server, with which a test makes connections fail. Methods act on the open connections, unless stated otherwise. */
export interface FaultProxy extends AsyncDisposable {
  /** The URL of the server through the proxy, with its user, password and path. */
  readonly url: string
  readonly port: number
  /** The number of open connections. */
  readonly connections: number
  /** Resets all connections, on both sides. */
  cut(): void
  /** Makes the connections half open: data that clients send no longer arrives, and they are not notified. */
  swallow(): void
  /** Holds back what the server sends until it is released, on new connections too. */
  hold(): void
  release(): void
  /** Refuses new connections from now on, or accepts them again. */
  refuse(refused: boolean): void
  /** From now on, decides what happens to each chunk that a client sends, on new connections too. Without a function all chunks pass. */
  judge(judge?: JudgePiece): void
  /** From now on, delays each chunk in both directions, on new connections too. `bytesPerSecond` adds a delay by size. Without options there is no delay. */
  slow(options?: SlowOptions): void
  /** Resolves when all `late` chunks have reached the server. */
  idle(): Promise<void>
}

export interface SlowOptions {
  /** Milliseconds. Default: 0. */
  readonly delay?: number | undefined
  /** Default: no limit. */
  readonly bytesPerSecond?: number | undefined
}

/** `target` is the URL of the server, of any protocol over TCP; TLS passes through unread. `judge` is passed to `judge()`. */
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

/** Cuts a connection on which a client sends this text, ignoring case: before the server receives it, or when the server has answered. */
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

/** Assembled by hand: `URL` cannot change the port of a protocol that it does not know. */
function urlBy({ protocol, username, password, pathname, search }: URL, port: number): string {
  const login = username === '' && password === '' ? '' : `${username}${password === '' ? '' : `:${password}`}@`
  return `${protocol}//${login}127.0.0.1:${port}${pathname}${search}`
}

/**
 * The fate of a chunk that a client sends. A small request is one chunk; a large one is several, of which the first decides.
 * - `pass`: it reaches the server, and the answer reaches the client
 * - `cut before`: the connection is cut, and it never reaches the server
 * - `cut after`: it reaches the server, which executes it; when the answer arrives, the connection is cut instead
 * - `swallow`: half open from now on: neither this chunk nor later ones reach the server, and the client is not notified
 * - `late`: the client's side is cut immediately; the chunk reaches the server when the promise resolves, unless the server has closed by then
 * - `held`: it reaches the server when the promise resolves, unless the client has closed by then; later chunks wait, and are judged then
 */
export type Fault = 'pass' | 'cut before' | 'cut after' | 'swallow' | { readonly late: Promise<void> } | { readonly held: Promise<void> }

/** `connection` numbers the connections of the proxy from 1, for a chunk that can only be recognised by the chunks before it. */
export type JudgePiece = (bytes: Buffer, connection: number) => Fault

interface FaultLinkOptions {
  readonly host: string
  readonly port: number
  readonly judge: (bytes: Buffer) => Fault
  /** The delay of a chunk in milliseconds. */
  readonly pauseBefore: (bytes: Buffer) => number
  readonly onLate: (arrival: Promise<void>) => void
  readonly onClosed: () => void
}

/** Which direction of a connection still works: both; only towards the server, until it answers; the same, with late bytes that are not sent yet; or none. */
type State = 'whole' | 'last words' | 'late' | 'cut'

/** The connection of one client, and its connection to the server. */
class FaultLink {
  readonly #client: Socket
  readonly #server: Socket
  readonly #options: FaultLinkOptions
  #state: State = 'whole'
  #swallows = false
  #holds = false
  /** The chunks that the client has sent after a held one. */
  #behind: Buffer[] | undefined

  constructor(client: Socket, options: FaultLinkOptions) {
    this.#client = client
    this.#server = connect({ host: options.host, port: options.port })
    this.#options = options
    for (const socket of [this.#client, this.#server]) socket.setNoDelay(true).on('error', () => {})
    this.#client.on('close', () => this.#state === 'whole' && this.cut())
    this.#server.on('close', () => this.cut())
    const { pauseBefore } = options
    carry(this.#client, this.#server, { pauseBefore, isHeld: () => false, forward: (bytes) => this.#toServer(bytes) })
    carry(this.#server, this.#client, { pauseBefore, isHeld: () => this.#holds, forward: (bytes) => this.#toClient(bytes) })
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

  /** Returns whether the receiver can take more data. */
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
    // Answers that arrive before the late bytes are sent belong to earlier requests.
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
  /** Returns whether more data can be taken. */
  readonly forward: (bytes: Buffer) => boolean
}

/** Forwards chunk by chunk, in order, as fast as the receiver takes them. */
function carry(from: Socket, to: Socket, { pauseBefore, isHeld, forward }: Carrying): void {
  const goOn = () => {
    if (!isHeld()) from.resume()
  }
  from.on('data', (bytes: Buffer) => {
    const pause = pauseBefore(bytes)
    if (pause > 0) {
      from.pause()
      systemRuntime.setTimeout(() => {
        if (forward(bytes)) goOn()
        else to.once('drain', goOn)
      }, pause)
    } else if (!forward(bytes)) {
      from.pause()
      to.once('drain', goOn)
    }
  })
}
