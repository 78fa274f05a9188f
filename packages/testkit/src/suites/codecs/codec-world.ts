import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type Attributes, Message, type RawMessage } from '@ackord/core'
import { encrypted, type PayloadCodec, staticKeys } from '@ackord/core/payload'
import type { Scenario } from '../../run/scenario.ts'

/** The promises of a codec beyond restoring a message. Each adds scenarios; none removes any. */
export interface CodecFeatures {
  /** The attributes that the data belongs to: in a message where one of them is another, the data is rejected. */
  readonly bound: readonly ('id' | 'source' | 'type')[]
  /** Every change of encoded data is detected. */
  readonly authenticated: boolean
}

/** A codec for one scenario, configured so that it changes all data, except maybe none. Disposing the world removes what the codec stored. */
export interface CodecWorld extends AsyncDisposable {
  readonly codec: PayloadCodec
  /** The codec of another process, with the same configuration. */
  another(): Promise<PayloadCodec>
}

export type OpenCodecWorld = () => Promise<CodecWorld>
export type CodecScenario = Scenario<OpenCodecWorld>

export const encryptedFeatures: CodecFeatures = { bound: ['id', 'source', 'type'], authenticated: true }

/** Encryption with one key: an example for other worlds. */
export async function openEncryptedWorld(): Promise<CodecWorld> {
  const keys = staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } })
  return {
    codec: encrypted({ keys }),
    another: async () => encrypted({ keys }),
    [Symbol.asyncDispose]: async () => {},
  }
}

const call = { signal: new AbortController().signal }

export function message(data: Uint8Array | string, attributes: Attributes = {}): RawMessage {
  const own = { id: 'o1', source: '/shop', type: 'order.placed', specversion: '1.0', datacontenttype: 'application/json' }
  return new Message(typeof data === 'string' ? new TextEncoder().encode(data) : data, own).withAttributes(attributes)
}

export async function encode(codec: PayloadCodec, original: RawMessage): Promise<RawMessage> {
  return await codec.encode(original, call)
}

export async function decode(codec: PayloadCodec, encoded: RawMessage): Promise<RawMessage> {
  return await codec.decode(encoded, call)
}

/** The message as another process receives it, with changes. */
export function sent(
  { data, attributes }: RawMessage,
  changes: { readonly data?: Uint8Array; readonly attributes?: Attributes } = {},
): RawMessage {
  return new Message(new Uint8Array(changes.data ?? data), attributes).withAttributes(changes.attributes ?? {})
}

/** Compares bytes and attributes. */
export function assertMessage(found: RawMessage, expected: RawMessage): void {
  assert.deepEqual(found.attributes, expected.attributes)
  assert.ok(found.data instanceof Uint8Array, 'the data must be bytes')
  assert.ok(
    Buffer.compare(found.data, expected.data) === 0,
    `the data of ${found.data.byteLength} bytes differs from the ${expected.data.byteLength} bytes that were encoded`,
  )
}

/** Asserts that the message is rejected, and not retried. */
export async function assertRejected(codec: PayloadCodec, encoded: RawMessage, what: string): Promise<void> {
  try {
    await decode(codec, encoded)
  } catch (error) {
    assert.ok(
      error instanceof Error && 'retryable' in error && error.retryable === false,
      `${what} must be an error that is not retryable; it is ${String(error)}`,
    )
    return
  }
  assert.fail(`${what} was accepted`)
}
