import { Readable } from 'node:stream'
import { abortable } from '@ackord/core/internal'

/** The bytes of a stream; `undefined` if there are more than `limit`. A stream that is too long, or that is aborted by the signal, is cancelled. */
export async function readBounded(
  stream: ReadableStream<Uint8Array> | Readable,
  limit: number,
  signal?: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  const { read, cancel } = stream instanceof Readable ? nodeReader(stream) : webReader(stream)
  const pieces = new BoundedBytes(limit)
  let ended = false
  try {
    for (;;) {
      const next = read()
      const { done, value } = await (signal === undefined ? next : abortable(next, signal))
      ended = done === true
      if (ended) return pieces.join()
      if (!pieces.add(value instanceof Uint8Array ? value : Buffer.from(String(value)))) return undefined
    }
  } finally {
    if (!ended) cancel()
  }
}

interface PieceReader {
  read(): Promise<{ readonly done?: boolean | undefined; readonly value?: unknown }>
  cancel(): void
}

function webReader(stream: ReadableStream<Uint8Array>): PieceReader {
  const reader = stream.getReader()
  return {
    read: () => reader.read(),
    // Not awaited: a stream may take its time to end, and nothing depends on it.
    cancel: () => void reader.cancel().catch(() => {}),
  }
}

/** Not `Readable.toWeb()`: when it is cancelled in the middle, Node 20 throws an error that cannot be caught. */
function nodeReader(stream: Readable): PieceReader {
  const iterator: AsyncIterator<unknown> = stream[Symbol.asyncIterator]()
  return { read: () => iterator.next(), cancel: () => void stream.destroy() }
}

/** Collects bytes up to a limit. */
export class BoundedBytes {
  readonly #limit: number
  readonly #pieces: Uint8Array[] = []
  #size = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** `false` if it does not fit, and then nothing is added. */
  add(piece: Uint8Array): boolean {
    if (this.#size + piece.byteLength > this.#limit) return false
    this.#size += piece.byteLength
    this.#pieces.push(piece)
    return true
  }

  join(): Uint8Array {
    return Buffer.concat(this.#pieces, this.#size)
  }
}
