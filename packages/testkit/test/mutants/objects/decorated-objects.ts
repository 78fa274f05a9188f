import type { ObjectStore } from '@ackord/core/payload'
import { type ObjectWorld, type OpenObjectWorld, openMemoryObjectWorld } from '../../../src/suites/objects/object-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

/** Returns the parts of a world that a mutant replaces. Called once per world, with the real one. */
export type DecorateWorld = (world: ObjectWorld) => Partial<ObjectWorld>

/** The mutants that one scenario must catch: worlds of the in-memory store, decorated. */
export function brokenObjects(caughtBy: string, defects: Readonly<Record<string, DecorateWorld>>): Mutant<OpenObjectWorld>[] {
  return mutantsOf(caughtBy, defects, (decorate) => async () => {
    const world = await openMemoryObjectWorld()
    return { ...world, ...decorate(world) }
  })
}

/** Replaces methods of the store, for all processes. */
export function storing(change: (real: ObjectStore) => Partial<ObjectStore>): DecorateWorld {
  return ({ store: real }) => {
    const store = { ...real, ...change(real) }
    return { store, another: async () => store }
  }
}

/** Changes the bytes of objects when they are stored. */
export function writing(change: (bytes: Uint8Array, key: string) => Uint8Array): DecorateWorld {
  return storing((real) => ({ put: (key, bytes, options) => real.put(key, change(bytes, key), options) }))
}

/** Changes keys wherever they are used; a list has those that were given first. */
export function keying(change: (key: string) => string): DecorateWorld {
  return storing((real) => {
    const given = new Map<string, string>()
    const of = (key: string) => {
      const changed = change(key)
      if (!given.has(changed)) given.set(changed, key)
      return changed
    }
    return {
      put: async (key, bytes, options) => await real.put(of(key), bytes, options),
      get: async (key, options) => await real.get(of(key), options),
      delete: async (keys) => await real.delete(keys.map(of)),
      async *list(options) {
        for await (const { key, storedAt } of real.list(options)) yield { key: given.get(key) ?? key, storedAt }
      },
    }
  })
}
