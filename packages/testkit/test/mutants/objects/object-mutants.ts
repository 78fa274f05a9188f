import type { ObjectStore, StoredObject } from '@ackord/core/payload'
import { memoryObjects } from '../../../src/helpers/memory-objects.ts'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import type { OpenObjectWorld } from '../../../src/suites/objects/object-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { brokenObjects, type DecorateWorld, keying, storing, writing } from './decorated-objects.ts'

const never = new AbortController().signal

/** The objects of every world, as with one bucket for all of them. */
function sharedStore(): DecorateWorld {
  const shared = memoryObjects()
  return () => ({ store: shared, another: async () => shared })
}

/** Changes the list. */
function listing(change: (objects: readonly StoredObject[], olderThan: Date) => Iterable<StoredObject>): DecorateWorld {
  return storing((real) => ({
    async *list({ olderThan }) {
      const objects: StoredObject[] = []
      for await (const object of real.list({ olderThan: new Date('9999-12-31') })) objects.push(object)
      yield* change(objects, olderThan)
    },
  }))
}

const before = (objects: readonly StoredObject[], time: Date) => objects.filter(({ storedAt }) => storedAt < time)

/** Writes the first half of an object before the rest. `undo`: what happens when the put is aborted in between. */
function writingInParts(undo: (store: ObjectStore, key: string) => Promise<void>): DecorateWorld {
  return storing((real) => ({
    async put(key, bytes, { signal }) {
      signal.throwIfAborted()
      await real.put(key, bytes.subarray(0, bytes.byteLength / 2), { signal })
      await eventLoopTurn()
      if (signal.aborted) await undo(real, key)
      signal.throwIfAborted()
      await real.put(key, bytes, { signal })
    },
  }))
}

const contentMutants: readonly Mutant<OpenObjectWorld>[] = [
  ...brokenObjects('the fixture does what it claims', {
    'worlds share their objects': sharedStore(),
    'every process has its own objects': () => ({ another: async () => memoryObjects() }),
  }),
  ...brokenObjects('an object is found again with its exact bytes, also by another process', {
    'objects are text': writing((bytes) => new TextEncoder().encode(new TextDecoder().decode(bytes))),
    'line ends are changed': writing((bytes) => Buffer.from(Buffer.from(bytes).toString('latin1').replaceAll('\r\n', '\n'), 'latin1')),
    'objects are kept in the memory of a process': () => ({ another: async () => memoryObjects() }),
    'strings are returned': storing((real) => ({
      async get(key, options) {
        const bytes = await real.get(key, options)
        return (bytes === undefined ? undefined : Buffer.from(bytes).toString('latin1')) as Uint8Array | undefined
      },
    })),
  }),
  ...brokenObjects('an object may be empty', {
    'an empty object is absent': storing((real) => ({
      async get(key, options) {
        const bytes = await real.get(key, options)
        return bytes?.byteLength === 0 ? undefined : bytes
      },
    })),
    'an empty object is not stored': storing((real) => ({
      put: async (key, bytes, options) => (bytes.byteLength === 0 ? undefined : await real.put(key, bytes, options)),
    })),
  }),
  ...brokenObjects('an object may have several megabytes', {
    'an object has at most 5 MB': writing((bytes) => bytes.subarray(0, 5_000_000)),
    'blocks change places': writing((bytes) =>
      bytes.byteLength < 2_000_000 ? bytes : Buffer.concat([bytes.subarray(1_000_000), bytes.subarray(0, 1_000_000)]),
    ),
  }),
  ...brokenObjects('a view of a larger array is stored without the bytes around it', {
    'the whole buffer is stored': writing((bytes) => new Uint8Array(bytes.buffer)),
  }),
  ...brokenObjects('a stored object does not change with the arrays that it was written from or read into', {
    'the array of the writer is kept': storing((real) => {
      const kept = new Map<string, Uint8Array>()
      return {
        async put(key, bytes, options) {
          await real.put(key, bytes, options)
          kept.set(key, bytes)
        },
        get: async (key) => kept.get(key)?.slice(),
      }
    }),
    'readers share an array': storing((real) => {
      const read = new Map<string, Uint8Array | undefined>()
      return {
        async get(key, options) {
          if (!read.has(key)) read.set(key, await real.get(key, options))
          return read.get(key)
        },
      }
    }),
  }),
  ...brokenObjects('a key without an object has no bytes', {
    'an absent object is empty': storing((real) => ({
      get: async (key, options) => (await real.get(key, options)) ?? new Uint8Array(),
    })),
    'an absent object is an error': storing((real) => ({
      async get(key, options) {
        const bytes = await real.get(key, options)
        if (bytes === undefined) throw new Error('not found')
        return bytes
      },
    })),
    'a key is a prefix': storing((real) => ({
      async get(key, options) {
        for await (const object of real.list({ olderThan: new Date('9999-12-31') })) {
          if (object.key.startsWith(key)) return await real.get(object.key, options)
        }
        return undefined
      },
    })),
  }),
  ...brokenObjects('a repeated put replaces the object and makes it younger', {
    'the first object stays': storing((real) => ({
      put: async (key, bytes, options) => ((await real.get(key, options)) === undefined ? await real.put(key, bytes, options) : undefined),
    })),
    'the time of the first put stays': storing((real) => {
      const first = new Map<string, Date>()
      return {
        async *list({ olderThan }) {
          for await (const { key, storedAt } of real.list({ olderThan })) {
            if (!first.has(key)) first.set(key, storedAt)
            yield { key, storedAt: first.get(key) ?? storedAt }
          }
        },
      }
    }),
    'a put makes all objects younger': listing((objects) => {
      const latest = new Date(Math.max(...objects.map(({ storedAt }) => storedAt.getTime())))
      return objects.map(({ key }) => ({ key, storedAt: latest }))
    }),
  }),
  ...brokenObjects('an object that is larger than its reader accepts is rejected, and a smaller one is not', {
    'the limit is ignored': storing((real) => ({ get: (key, { signal }) => real.get(key, { signal }) })),
    'the object is cut': storing((real) => ({
      async get(key, { signal, maxBytes }) {
        return (await real.get(key, { signal }))?.slice(0, maxBytes)
      },
    })),
    'a limit of 0 is none': storing((real) => ({
      get: (key, { signal, maxBytes }) => real.get(key, { signal, maxBytes: maxBytes || undefined }),
    })),
    'an object of the exact size is too large': storing((real) => ({
      get: (key, { signal, maxBytes = Infinity }) => real.get(key, { signal, maxBytes: maxBytes - 1 }),
    })),
    'an object that is too large is retried': storing((real) => ({
      async get(key, { signal, maxBytes = Infinity }) {
        const bytes = await real.get(key, { signal })
        if (bytes !== undefined && bytes.byteLength > maxBytes) throw new Error('too large')
        return bytes
      },
    })),
  }),
]

const keyMutants: readonly Mutant<OpenObjectWorld>[] = [
  ...brokenObjects('keys that look alike are different objects', {
    'slashes are flattened': keying((key) => key.replaceAll('/', '-')),
    'only the last part counts': keying((key) => key.split('/').at(-1) ?? key),
    'extensions are dropped': keying((key) => key.replace(/\.json$/, '')),
    'keys are numbers': keying((key) => (/^\d+$/.test(key) ? String(Number(key)) : key)),
    'a deletion is by prefix': storing((real) => ({
      async delete(keys) {
        for await (const { key } of real.list({ olderThan: new Date('9999-12-31') })) {
          if (keys.some((prefix) => key.startsWith(prefix))) await real.delete([key])
        }
      },
    })),
  }),
  ...brokenObjects('keys may have 512 characters, in parts of up to 200, and every character that is allowed', {
    'long keys are cut': keying((key) => key.slice(0, 511)),
    'long parts are cut': keying((key) => key.replaceAll(/[^/]{199,}/g, (part) => part.slice(0, 199))),
    'two dots are rejected': keying((key) => {
      if (key.includes('..')) throw new Error('invalid key')
      return key
    }),
  }),
  ...brokenObjects('invalid keys are rejected, and nothing is stored or deleted', {
    'keys are resolved as paths': keying((key) => new URL(`file:///${key}`).pathname.slice(1) || 'index'),
    'keys are not checked when an object is read': storing((real) => ({
      get: async (key, options) => await real.get(key.replaceAll(/[^\w/-]/g, '') || 'x', options).catch(() => undefined),
    })),
    'keys are deleted up to the invalid one': storing((real) => ({
      async delete(keys) {
        for (const key of keys) await real.delete([key])
      },
    })),
    'an invalid key is another error': storing((real) => ({
      async put(key, bytes, options) {
        try {
          await real.put(key, bytes, options)
        } catch {
          throw new Error('invalid key')
        }
      },
    })),
  }),
]

const abortMutants: readonly Mutant<OpenObjectWorld>[] = [
  ...brokenObjects('an aborted signal rejects with its reason, and nothing is stored', {
    'a put ignores its signal': storing((real) => ({ put: (key, bytes) => real.put(key, bytes, { signal: never }) })),
    'a get ignores its signal': storing((real) => ({ get: (key, { maxBytes }) => real.get(key, { signal: never, maxBytes }) })),
    'the object is stored nevertheless': storing((real) => ({
      async put(key, bytes, { signal }) {
        await real.put(key, bytes, { signal: never })
        signal.throwIfAborted()
      },
    })),
    'the reason is lost': storing((real) => ({
      async put(key, bytes, options) {
        if (options.signal.aborted) throw new Error('aborted')
        await real.put(key, bytes, options)
      },
    })),
  }),
  ...brokenObjects('a put that is aborted while it runs leaves the whole object or none', {
    'half of the object is left': writingInParts(async () => {}),
    'the reason is lost': writingInParts(async (store, key) => {
      await store.delete([key])
      throw new Error('aborted')
    }),
    'an aborted key cannot be stored again': storing((real) => {
      const aborted = new Set<string>()
      return {
        async put(key, bytes, { signal }) {
          await eventLoopTurn()
          if (signal.aborted) aborted.add(key)
          if (!aborted.has(key)) await real.put(key, bytes, { signal })
          signal.throwIfAborted()
        },
      }
    }),
  }),
  ...brokenObjects('a get that is aborted while it runs returns the whole object or rejects with the reason', {
    'half of the object is returned': storing((real) => ({
      async get(key, options) {
        const bytes = await real.get(key, options)
        await eventLoopTurn()
        return options.signal.aborted ? bytes?.subarray(0, 1000) : bytes
      },
    })),
    'an aborted object is absent': storing((real) => ({
      async get(key, options) {
        const bytes = await real.get(key, options)
        await eventLoopTurn()
        return options.signal.aborted ? undefined : bytes
      },
    })),
    'the reason is lost': storing((real) => ({
      async get(key, options) {
        const bytes = await real.get(key, options)
        await eventLoopTurn()
        if (options.signal.aborted) throw new Error('aborted')
        return bytes
      },
    })),
  }),
]

const concurrencyMutants: readonly Mutant<OpenObjectWorld>[] = [
  ...brokenObjects('concurrent puts of one key leave one of their objects, and readers see no other bytes', {
    'objects are written in place': writingInParts(async () => {}),
    'two objects are mixed': storing((real) => {
      const first = new Map<string, Uint8Array>()
      return {
        async put(key, bytes, options) {
          const other = first.get(key) ?? bytes
          first.set(key, other)
          await real.put(key, Buffer.concat([bytes.subarray(0, 1000), other.subarray(1000)]), options)
        },
      }
    }),
    'the second of two puts fails': storing((real) => {
      const busy = new Set<string>()
      return {
        async put(key, bytes, options) {
          if (busy.has(key)) throw new Error('the object is locked')
          busy.add(key)
          await eventLoopTurn()
          await real.put(key, bytes, options)
          busy.delete(key)
        },
      }
    }),
  }),
  ...brokenObjects('objects of a new prefix can be stored concurrently', {
    'the prefix is created twice': storing((real) => {
      const folders = new Set<string>()
      return {
        async put(key, bytes, options) {
          const folder = key.slice(0, key.lastIndexOf('/'))
          const exists = folders.has(folder)
          await eventLoopTurn()
          if (!exists && folders.has(folder)) throw new Error('the directory exists')
          folders.add(folder)
          await real.put(key, bytes, options)
        },
      }
    }),
  }),
]

const deleteMutants: readonly Mutant<OpenObjectWorld>[] = [
  ...brokenObjects('deleted objects are gone for every process, and the others stay', {
    'nothing is deleted': storing(() => ({ delete: async () => {} })),
    'only the first key is deleted': storing((real) => ({ delete: (keys) => real.delete(keys.slice(0, 1)) })),
    'everything is deleted': storing((real) => ({
      async delete() {
        for await (const { key } of real.list({ olderThan: new Date('9999-12-31') })) await real.delete([key])
      },
    })),
    'a deleted key stays deleted': storing((real) => {
      const deleted = new Set<string>()
      return {
        async delete(keys) {
          for (const key of keys) deleted.add(key)
          await real.delete(keys)
        },
        get: async (key, options) => (deleted.has(key) ? undefined : await real.get(key, options)),
      }
    }),
  }),
  ...brokenObjects('a deletion accepts no keys, repeated keys, and keys without an object', {
    'no keys are an error': storing((real) => ({
      async delete(keys) {
        if (keys.length === 0) throw new Error('no keys')
        await real.delete(keys)
      },
    })),
    'no keys are all keys': storing((real) => ({
      async delete(keys) {
        if (keys.length > 0) return await real.delete(keys)
        for await (const { key } of real.list({ olderThan: new Date('9999-12-31') })) await real.delete([key])
      },
    })),
    'an absent key is an error': storing((real) => ({
      async delete(keys) {
        for (const key of keys) {
          if ((await real.get(key, { signal: never })) === undefined) throw new Error('not found')
          await real.delete([key])
        }
      },
    })),
    'a deletion ends at an absent key': storing((real) => ({
      async delete(keys) {
        for (const key of keys) {
          if ((await real.get(key, { signal: never })) === undefined) return
          await real.delete([key])
        }
      },
    })),
  }),
  ...brokenObjects('thousands of objects can be deleted with one call', {
    'a call has at most a thousand keys': storing((real) => ({
      async delete(keys) {
        if (keys.length > 1000) throw new Error('too many keys')
        await real.delete(keys)
      },
    })),
    'only the first thousand are deleted': storing((real) => ({ delete: (keys) => real.delete(keys.slice(0, 1000)) })),
    'incomplete thousands are not deleted': storing((real) => ({
      delete: (keys) => real.delete(keys.length < 1000 ? keys : keys.slice(0, keys.length - (keys.length % 1000))),
    })),
  }),
]

const listMutants: readonly Mutant<OpenObjectWorld>[] = [
  ...brokenObjects('a list has each object once, with its key and the time when it was stored', {
    'prefixes are not descended into': listing((objects) => objects.filter(({ key }) => key.split('/').length < 3)),
    'objects are listed twice': listing((objects) => [...objects, ...objects.slice(0, 1)]),
    'prefixes are listed, too': listing((objects) => [
      ...objects,
      ...objects.slice(0, 1).map(({ storedAt }) => ({ key: 'orders', storedAt })),
    ]),
    'keys lose their prefix': listing((objects) => objects.map(({ key, storedAt }) => ({ key: key.split('/').at(-1) ?? key, storedAt }))),
    'times are seconds': listing((objects) => objects.map(({ key, storedAt }) => ({ key, storedAt: new Date(storedAt.getTime() / 1000) }))),
    'times are text': listing((objects) =>
      objects.map(({ key, storedAt }) => ({ key, storedAt: storedAt.toISOString() as unknown as Date })),
    ),
  }),
  ...brokenObjects('a list has the objects that were stored before its time, and no others', {
    'the time is ignored': listing((objects) => objects),
    'objects of that time are listed': listing((objects, time) => objects.filter(({ storedAt }) => storedAt <= time)),
    'objects stored after that time are listed': listing((objects, time) => objects.filter(({ storedAt }) => storedAt > time)),
    'objects must be a second older': listing((objects, time) => before(objects, new Date(time.getTime() - 1000))),
  }),
  ...brokenObjects('a list that is ended early leaves the store usable', {
    'the list is not released': storing((real) => {
      let open = 0
      return {
        async *list(options) {
          if (open > 0) throw new Error('too many open lists')
          open += 1
          for await (const object of real.list(options)) yield object
          open -= 1
        },
      }
    }),
    'a list goes on where the last one ended': storing((real) => {
      const seen = new Set<string>()
      return {
        async *list(options) {
          for await (const object of real.list(options)) {
            if (seen.has(object.key)) continue
            seen.add(object.key)
            yield object
          }
        },
      }
    }),
  }),
  ...brokenObjects('a list has more objects than fit into a page', {
    'the first page is the list': listing((objects, time) => before(objects, time).slice(0, 20)),
    'the last page is lost if it is incomplete': listing((objects, time) => before(objects, time).slice(0, 40)),
    'pages overlap': listing((objects, time) => [...before(objects, time).slice(0, 21), ...before(objects, time).slice(20)]),
  }),
  ...brokenObjects('a list has all objects although those that it has returned are deleted meanwhile', {
    'pages are found by number': storing((real) => ({
      async *list(options) {
        for (let page = 0; ; page += 1) {
          const objects: StoredObject[] = []
          for await (const object of real.list(options)) objects.push(object)
          const found = objects.slice(20 * page, 20 * page + 20)
          if (found.length === 0) return
          yield* found
        }
      },
    })),
  }),
]

/** One mutant or more per scenario. */
export const objectMutants: readonly Mutant<OpenObjectWorld>[] = [
  ...contentMutants,
  ...keyMutants,
  ...abortMutants,
  ...concurrencyMutants,
  ...deleteMutants,
  ...listMutants,
]
