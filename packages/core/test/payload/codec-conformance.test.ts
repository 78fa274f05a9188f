import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'vitest'
// Imported by path: the testkit depends on this package.
import { memoryObjects } from '../../../testkit/src/helpers/memory-objects.ts'
import { type CodecWorld, encryptedFeatures, openEncryptedWorld } from '../../../testkit/src/suites/codecs/codec-world.ts'
import { testPayloadCodec } from '../../../testkit/src/suites/codecs/test-payload-codec.ts'
import { testKeyRing } from '../../../testkit/src/suites/keys/test-key-ring.ts'
import { claimCheck } from '../../src/payload/claim-check.ts'
import { encrypted } from '../../src/payload/encrypted.ts'
import { fileObjects } from '../../src/payload/file-objects.ts'
import { staticKeys } from '../../src/payload/key-ring.ts'

function worldOf(create: () => CodecWorld['codec'], dispose = async () => {}): CodecWorld {
  return { codec: create(), another: async () => create(), [Symbol.asyncDispose]: dispose }
}

testPayloadCodec({ describe, it }, { name: 'encrypted()', open: openEncryptedWorld, features: encryptedFeatures })

testPayloadCodec(
  { describe, it },
  {
    name: 'encrypted() with keys that come later',
    features: encryptedFeatures,
    async open() {
      const key = randomBytes(32)
      const keys = { current: 'shared', get: async () => key, getOrCreate: async () => key }
      return worldOf(() => encrypted({ keys, keyFor: ({ subject }) => subject }))
    },
  },
)

testPayloadCodec(
  { describe, it },
  {
    name: 'claimCheck() in memory',
    features: { bound: ['id', 'source'], authenticated: false },
    async open() {
      const store = memoryObjects()
      return worldOf(() => claimCheck({ store, above: 0 }))
    },
  },
)

testPayloadCodec(
  { describe, it },
  {
    name: 'claimCheck() in files',
    features: { bound: ['id', 'source'], authenticated: false },
    async open() {
      const directory = await mkdtemp(join(tmpdir(), 'ackord-claims-'))
      return worldOf(
        () => claimCheck({ store: fileObjects(directory), above: 0 }),
        () => rm(directory, { recursive: true }),
      )
    },
  },
)

testKeyRing(
  { describe, it },
  {
    name: 'staticKeys()',
    features: { creates: false, forgets: false },
    async open() {
      const ring = staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } })
      return {
        ring,
        another: async () => ring,
        forget: () => Promise.reject(new Error('Keys of the configuration are forgotten with it.')),
        [Symbol.asyncDispose]: async () => {},
      }
    },
  },
)
