import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { memoryObjects } from '../../../testkit/src/helpers/memory-objects.ts'
import type { RawMessage } from '../../src/message/message.ts'
import { claimCheck } from '../../src/payload/claim-check.ts'
import { encrypted } from '../../src/payload/encrypted.ts'
import { staticKeys } from '../../src/payload/key-ring.ts'
import { decodePayload, encodePayload } from '../../src/payload/payload-functions.ts'
import { placed, received, textOf, wrapping } from '../support/payload-world.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const keys = staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } })
const large = 'x'.repeat(1000)

async function storedText(store: ReturnType<typeof memoryObjects>): Promise<string> {
  let text = ''
  const { signal } = new AbortController()
  for await (const { key } of store.list({ olderThan: new Date('9999-01-01') }))
    text += Buffer.from((await store.get(key, { signal })) ?? '').toString('latin1')
  return text
}

describe('encodePayload() and decodePayload()', () => {
  it('apply both codecs: encrypted objects, with a plain reference', async () => {
    const store = memoryObjects()
    const codecs = [encrypted({ keys, plainText: 'reject' as const }), claimCheck({ store, above: 200 })]
    const sent = await encodePayload(placed(large), codecs)
    expect(sent.attributes).toMatchObject({
      ackordencrypted: '1',
      ackordclaimcheck: '1',
      datacontenttype: 'application/vnd.ackord.claim-check',
    })
    expect((await storedText(store)).includes('xxxx')).toBe(false)
    const read = await decodePayload(received(sent), codecs)
    expect([textOf(read), read.attributes]).toEqual([large, placed().attributes])
    const small = await decodePayload(received(await encodePayload(placed('small'), codecs)), codecs)
    expect([textOf(small), small.attributes]).toEqual(['small', placed().attributes])
  })

  it('apply both codecs in the other order: plain objects, with an encrypted reference', async () => {
    const store = memoryObjects()
    const codecs = [claimCheck({ store, above: 200 }), encrypted({ keys })]
    const sent = await encodePayload(placed(large), codecs)
    expect(sent.dataContentType).toBe('application/vnd.ackord.encrypted')
    expect(await storedText(store)).toBe(large)
    expect(textOf(await decodePayload(received(sent), codecs))).toBe(large)
  })

  it('detect an encrypted object that was replaced, although the hash is that of the new one', async () => {
    const store = memoryObjects()
    const codecs = [encrypted({ keys }), claimCheck({ store, above: 200 })]
    const forger = [encrypted({ keys: staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } }) }), claimCheck({ store, above: 200 })]
    const forged = await encodePayload(placed(large), forger)
    await expect(decodePayload(received(forged), codecs)).rejects.toMatchObject({ code: 'ACKORD_PAYLOAD_INVALID', retryable: false })
  })

  it('return the message itself without codecs', async () => {
    const message = placed()
    expect([await encodePayload(message, []), await decodePayload(message, [])]).toEqual([message, message])
  })

  it('have a time limit and a signal', async () => {
    const runtime = new VirtualRuntime()
    const slow = { ...wrapping('a'), encode: () => new Promise<RawMessage>(() => {}), decode: () => new Promise<RawMessage>(() => {}) }
    for (const run of [encodePayload, decodePayload]) {
      const late = run(placed(), [slow], { timeout: 100, runtime }).catch((error: unknown) => error)
      await runtime.advance(100)
      expect(await late).toMatchObject({ code: 'ACKORD_CODEC_FAILED', message: expect.stringContaining('100 ms') })
      const reason = new Error('gone')
      await expect(run(placed(), [slow], { signal: AbortSignal.abort(reason), runtime })).rejects.toBe(reason)
    }
  })

  it('reject invalid options, named after the function', async () => {
    const invalid = (option: string) => ({ code: 'ACKORD_INVALID_OPTION', option })
    await expect(encodePayload(placed(), [], { codecTimeout: 1 } as object)).rejects.toMatchObject(invalid('encodePayload()'))
    await expect(decodePayload(placed(), [], { codecTimeout: 1 } as object)).rejects.toMatchObject(invalid('decodePayload()'))
    await expect(decodePayload(placed(), [], { timeout: -1 })).rejects.toMatchObject(invalid('timeout'))
    await expect(decodePayload(placed(), undefined as never)).rejects.toMatchObject(invalid('codecs'))
  })
})
