import { randomBytes } from 'node:crypto'
import type { KeyAnswer, KeyRing } from '@ackord/core/payload'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import { type KeyRingWorld, type OpenKeyRingWorld, openMemoryKeyRingWorld } from '../../../src/suites/keys/key-ring-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

/** Returns the parts of a world that a mutant replaces. Called once per world, with the real one. */
type DecorateWorld = (world: KeyRingWorld) => Partial<KeyRingWorld>

function brokenKeyRing(caughtBy: string, defects: Readonly<Record<string, DecorateWorld>>): Mutant<OpenKeyRingWorld>[] {
  return mutantsOf(caughtBy, defects, (decorate) => async () => {
    const world = await openMemoryKeyRingWorld()
    return { ...world, ...decorate(world) }
  })
}

interface WholeRing extends KeyRing {
  getOrCreate: NonNullable<KeyRing['getOrCreate']>
}

/** Replaces methods of the ring. Every process has a decorated ring of its own, on the same keys. */
function ringing(change: (real: WholeRing) => Partial<KeyRing>): DecorateWorld {
  return ({ ring: real }) => {
    const whole = real as WholeRing
    const decorated = () => ({ ...whole, ...change(whole) })
    return { ring: decorated(), another: async () => decorated() }
  }
}

/** Changes the answers of both methods. */
function answering(change: (answer: KeyAnswer, keyId: string) => KeyAnswer): DecorateWorld {
  return ringing((real) => ({
    get: async (keyId, options) => change(await real.get(keyId, options), keyId),
    getOrCreate: async (keyId, options) => change(await real.getOrCreate(keyId, options), keyId),
  }))
}

function renaming(change: (keyId: string) => string): DecorateWorld {
  return ringing((real) => ({
    get: (keyId, options) => real.get(change(keyId), options),
    getOrCreate: (keyId, options) => real.getOrCreate(change(keyId), options),
  }))
}

/** Answers with what it has found first. */
const caching: DecorateWorld = ringing((real) => {
  const cache = new Map<string, KeyAnswer>()
  const cached = (keyId: string, answer: KeyAnswer) => {
    if (answer instanceof Uint8Array && !cache.has(keyId)) cache.set(keyId, new Uint8Array(answer))
    return cache.get(keyId) ?? answer
  }
  return {
    get: async (keyId, options) => cached(keyId, await real.get(keyId, options)),
    getOrCreate: async (keyId, options) => cached(keyId, await real.getOrCreate(keyId, options)),
  }
})

/** One mutant or more per scenario. */
export const keyRingMutants: readonly Mutant<OpenKeyRingWorld>[] = [
  ...brokenKeyRing('the current key has 32 bytes, and is the same in each call and process', {
    'keys have 16 bytes': answering((answer) => (answer instanceof Uint8Array ? answer.subarray(0, 16) : answer)),
    'keys are text': answering((answer) =>
      answer instanceof Uint8Array ? (Buffer.from(answer).toString('hex') as unknown as Uint8Array) : answer,
    ),
    'keys are zeros': answering((answer) => (answer instanceof Uint8Array ? new Uint8Array(32) : answer)),
    'every call creates a key': ringing(() => ({ getOrCreate: () => randomBytes(32) })),
    'every process has its own keys': () => ({ another: async () => (await openMemoryKeyRingWorld()).ring }),
    'there is no current key': ringing(() => ({ current: '' })),
  }),
  ...brokenKeyRing('a key that does not exist is undefined, and is not created for a reader', {
    'readers create keys': ringing((real) => ({ get: (keyId, options) => real.getOrCreate(keyId, options) })),
    'an absent key is null': answering((answer) => answer ?? (null as unknown as undefined)),
    'an absent key is forgotten': answering((answer) => answer ?? 'forgotten'),
    'an absent key is an error': ringing((real) => ({
      async get(keyId, options) {
        const answer = await real.get(keyId, options)
        if (answer === undefined) throw new Error('not found')
        return answer
      },
    })),
    'keys are the members of an object': answering((answer, keyId) => answer ?? ({} as Record<string, undefined>)[keyId]),
  }),
  ...brokenKeyRing('a key does not change with the array that a caller got', {
    'callers share an array': ringing((real) => {
      const shared = new Map<string, KeyAnswer>()
      const share = (keyId: string, answer: KeyAnswer) => {
        if (!shared.has(keyId)) shared.set(keyId, answer)
        return shared.get(keyId)
      }
      return {
        get: async (keyId, options) => share(keyId, await real.get(keyId, options)),
        getOrCreate: async (keyId, options) => share(keyId, await real.getOrCreate(keyId, options)),
      }
    }),
  }),
  ...brokenKeyRing('a key is created for a writer, and every process finds it', {
    'no key is created': ringing((real) => ({ getOrCreate: (keyId, options) => real.get(keyId, options) })),
    'a created key is not stored': ringing((real) => ({
      getOrCreate: async (keyId, options) => (await real.get(keyId, options)) ?? randomBytes(32),
    })),
    'a created key is known to its process only': ringing((real) => {
      const own = new Map<string, Uint8Array>()
      return {
        get: async (keyId, options) => own.get(keyId) ?? (await real.get(keyId, options)),
        getOrCreate(keyId) {
          if (!own.has(keyId)) own.set(keyId, randomBytes(32))
          return own.get(keyId)
        },
      }
    }),
  }),
  ...brokenKeyRing('writers that need a key at the same time get the same one', {
    'the last of them wins': ringing((real) => {
      const known = new Map<string, Uint8Array>()
      return {
        get: async (keyId) => known.get(keyId),
        async getOrCreate(keyId, options) {
          const found = known.get(keyId)
          await real.getOrCreate(keyId, options)
          await eventLoopTurn()
          if (found !== undefined) return found
          const created = randomBytes(32)
          known.set(keyId, created)
          return created
        },
      }
    }),
    'all but one fail': ringing((real) => {
      const creating = new Set<string>()
      return {
        async getOrCreate(keyId, options) {
          if (creating.has(keyId)) throw new Error('duplicate key')
          creating.add(keyId)
          await eventLoopTurn()
          creating.delete(keyId)
          return await real.getOrCreate(keyId, options)
        },
      }
    }),
  }),
  ...brokenKeyRing('ids may have any characters, and those that look alike have different keys', {
    'ids are compared without case': renaming((keyId) => keyId.toLowerCase()),
    'ids are trimmed': renaming((keyId) => keyId.trim()),
    'ids are normalized': renaming((keyId) => keyId.normalize('NFC')),
    'ids have at most 200 bytes': ringing((real) => ({
      getOrCreate(keyId, options) {
        if (Buffer.byteLength(keyId) > 200) throw new Error('too long')
        return real.getOrCreate(keyId, options)
      },
    })),
    'ids are printable': renaming((keyId) => keyId.replaceAll(/[^\x20-\x7e]/g, '')),
    'there is one key for all': renaming(() => 'shared'),
  }),
  ...brokenKeyRing('a forgotten key is forgotten in every process, and the others stay', {
    'nothing is forgotten': () => ({ forget: async () => {} }),
    'everything is forgotten': (world) => ({
      async forget(keyId) {
        await world.forget(world.ring.current)
        await world.forget(keyId)
      },
    }),
    'a cache remembers it': caching,
    'writers get a new key': ringing((real) => ({
      async getOrCreate(keyId, options) {
        const found = await real.getOrCreate(keyId, options)
        return found === 'forgotten' ? randomBytes(32) : found
      },
    })),
    'a forgotten key is unknown': answering((answer) => (answer === 'forgotten' ? undefined : answer)),
  }),
  ...brokenKeyRing('a key can be forgotten twice, and before it exists', {
    'the second time is an error': (world) => {
      const forgotten = new Set<string>()
      return {
        async forget(keyId) {
          if (forgotten.has(keyId)) throw new Error('not found')
          forgotten.add(keyId)
          await world.forget(keyId)
        },
      }
    },
    'only an existing key is forgotten': (world) => ({
      async forget(keyId) {
        if ((await world.ring.get(keyId, { signal: new AbortController().signal })) !== undefined) await world.forget(keyId)
      },
    }),
  }),
]
