import { type Runtime, systemRuntime } from '@ackord/core'
import { checkObjectKey, type ObjectStore, ObjectTooLargeError } from '@ackord/core/payload'

export interface MemoryObjectsOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** An object store in memory, for tests of services that use `claimCheck()`. */
export function memoryObjects(options: MemoryObjectsOptions = {}): ObjectStore {
  const { runtime = systemRuntime } = options
  const objects = new Map<string, { readonly bytes: Uint8Array; readonly storedAt: Date }>()
  return {
    async put(key, bytes, { signal }) {
      checkObjectKey(key)
      signal.throwIfAborted()
      objects.set(key, { bytes: new Uint8Array(bytes), storedAt: new Date(runtime.now()) })
    },

    async get(key, { signal, maxBytes = Infinity }) {
      checkObjectKey(key)
      signal.throwIfAborted()
      const bytes = objects.get(key)?.bytes
      if (bytes !== undefined && bytes.byteLength > maxBytes) throw new ObjectTooLargeError(key, bytes.byteLength, maxBytes)
      return bytes?.slice()
    },

    async delete(keys) {
      for (const key of keys.map(checkObjectKey)) objects.delete(key)
    },

    async *list({ olderThan }) {
      for (const [key, { storedAt }] of [...objects]) if (storedAt < olderThan) yield { key, storedAt }
    },
  }
}
