import assert from 'node:assert/strict'
import { setMaxListeners } from 'node:events'
import type { ObjectStore, StoredObject } from '@ackord/core/payload'
import { memoryObjects } from '../../helpers/memory-objects.ts'
import { eventLoopTurn } from '../../helpers/virtual-runtime.ts'
import type { Scenario } from '../../run/scenario.ts'

/** How an implementation is configured in its worlds. */
export interface ObjectFeatures {
  /** The number of objects that the store lists with one request. A scenario stores more than two pages. */
  readonly pageSize: number
}

/** A separate store for one scenario, initially empty. Disposing it removes everything that the scenario stored. */
export interface ObjectWorld extends AsyncDisposable {
  readonly store: ObjectStore
  /** The same objects as another process sees them: with its own client, if there is a client. */
  another(): Promise<ObjectStore>
}

export type OpenObjectWorld = () => Promise<ObjectWorld>
export type ObjectScenario = Scenario<OpenObjectWorld>

export const memoryObjectFeatures: ObjectFeatures = { pageSize: 20 }

/** The in-memory store: an example for other worlds. */
export async function openMemoryObjectWorld(): Promise<ObjectWorld> {
  const store = memoryObjects()
  return { store, another: async () => store, [Symbol.asyncDispose]: async () => {} }
}

const never = new AbortController().signal
setMaxListeners(0, never)

export function put({ store }: { readonly store: ObjectStore }, key: string, bytes: Uint8Array | string): Promise<void> {
  return store.put(key, typeof bytes === 'string' ? bytesOf(bytes) : bytes, { signal: never })
}

export function get({ store }: { readonly store: ObjectStore }, key: string, maxBytes?: number): Promise<Uint8Array | undefined> {
  return store.get(key, { signal: never, maxBytes })
}

export function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

/** Bytes without a short period, so that a lost or repeated block is noticed. */
export function manyBytes(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length)
  let state = seed
  for (let index = 0; index < length; index += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    bytes[index] = state >>> 24
  }
  return bytes
}

/** Compares the bytes, whatever kind of Uint8Array they are in. A difference is described without the bytes: they may be megabytes. */
export function assertBytes(found: Uint8Array | undefined, expected: Uint8Array | string, key: string): void {
  if (found === undefined) assert.fail(`there is no object '${key}'`)
  assert.ok(found instanceof Uint8Array, `the object '${key}' is no Uint8Array`)
  const wanted = typeof expected === 'string' ? bytesOf(expected) : expected
  assert.equal(found.byteLength, wanted.byteLength, `the size of the object '${key}'`)
  assert.ok(Buffer.compare(found, wanted) === 0, `the object '${key}' has other bytes`)
}

export async function assertStored(world: { readonly store: ObjectStore }, key: string, expected: Uint8Array | string): Promise<void> {
  assertBytes(await get(world, key), expected, key)
}

export async function assertAbsent(world: { readonly store: ObjectStore }, key: string): Promise<void> {
  assert.equal(await get(world, key), undefined, `there is an object '${key}'`)
}

/** Later than the time of every object. */
export const farFuture: Date = new Date('9999-01-01T00:00:00Z')

/** All objects, or those that were stored before a time. */
export async function list({ store }: { readonly store: ObjectStore }, olderThan: Date = farFuture): Promise<StoredObject[]> {
  const found: StoredObject[] = []
  for await (const object of store.list({ olderThan })) found.push(object)
  return found
}

/** Asserts that these are all objects, each listed once. */
export async function assertListed(world: { readonly store: ObjectStore }, expected: readonly string[], olderThan?: Date): Promise<void> {
  const keys = (await list(world, olderThan)).map(({ key }) => key)
  assert.deepEqual(keys.toSorted(), expected.toSorted(), 'the listed objects')
}

/** When the object was stored, according to the list. */
export async function storedAt(world: { readonly store: ObjectStore }, key: string): Promise<Date> {
  const found = (await list(world)).find((one) => one.key === key)
  if (found === undefined) assert.fail(`the object '${key}' is not listed`)
  return found.storedAt
}

/** Resolves when an object that is stored now has a later time than this, whatever the resolution of the store's clock. */
export async function clockAfter(world: { readonly store: ObjectStore }, time: Date): Promise<void> {
  for (let round = 1; ; round += 1) {
    const key = `clock/${round}`
    await put(world, key, 'tick')
    const now = await storedAt(world, key)
    await world.store.delete([key])
    if (now > time) return
    await eventLoopTurn()
  }
}

/** Checks the fixture itself first: a world that does not do what it claims proves nothing. */
export const fixtureScenario: ObjectScenario = {
  name: 'the fixture does what it claims',
  basic: true,
  async run(open) {
    await using world = await open()
    await using separate = await open()
    await assertListed(world, [])
    await put(world, 'orders/1', 'one')
    await assertStored({ store: await world.another() }, 'orders/1', 'one')
    await assertListed({ store: await world.another() }, ['orders/1'])
    await assertAbsent(separate, 'orders/1')
    await assertListed(separate, [])
  },
}
