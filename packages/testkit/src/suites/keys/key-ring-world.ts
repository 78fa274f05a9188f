import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { KeyAnswer, KeyRing } from '@ackord/core/payload'
import type { Scenario } from '../../run/scenario.ts'

/** The optional features of an implementation. Each adds scenarios; none removes any. */
export interface KeyRingFeatures {
  /** The ring creates keys for new messages: it has `getOrCreate()`. */
  readonly creates: boolean
  /** Keys can be forgotten while the ring is used. */
  readonly forgets: boolean
}

/** A separate key ring for one scenario, initially without keys, except for the current one if the ring does not create it. Disposing it removes its keys. */
export interface KeyRingWorld extends AsyncDisposable {
  readonly ring: KeyRing
  /** The same keys as another process sees them: with its own client and cache, if there are any. */
  another(): Promise<KeyRing>
  /** Forgets a key, whether or not it exists, and resolves when no process uses it any more. Called only with the feature `forgets`. */
  forget(keyId: string): Promise<void>
}

export type OpenKeyRingWorld = () => Promise<KeyRingWorld>
export type KeyRingScenario = Scenario<OpenKeyRingWorld>

export const memoryKeyRingFeatures: KeyRingFeatures = { creates: true, forgets: true }

/** A key ring in memory: an example for other worlds. */
export async function openMemoryKeyRingWorld(): Promise<KeyRingWorld> {
  const keys = new Map<string, Uint8Array | 'forgotten'>()
  const get = (keyId: string): KeyAnswer => {
    const key = keys.get(keyId)
    return key instanceof Uint8Array ? new Uint8Array(key) : key
  }
  const ring: KeyRing = {
    current: 'shared',
    get,
    getOrCreate(keyId) {
      if (!keys.has(keyId)) keys.set(keyId, randomBytes(32))
      return get(keyId)
    },
  }
  return {
    ring,
    another: async () => ring,
    forget: async (keyId) => void keys.set(keyId, 'forgotten'),
    [Symbol.asyncDispose]: async () => {},
  }
}

const call = { signal: new AbortController().signal }

/** The key that a reader of messages gets. */
export async function get(ring: KeyRing, keyId: string): Promise<KeyAnswer> {
  return await ring.get(keyId, call)
}

/** The key that a writer of messages gets. */
export async function getToWrite(ring: KeyRing, keyId: string): Promise<KeyAnswer> {
  return await (ring.getOrCreate === undefined ? ring.get(keyId, call) : ring.getOrCreate(keyId, call))
}

/** Asserts that it is a key. No error shows it. */
export function assertKey(answer: KeyAnswer, keyId: string): Uint8Array {
  if (!(answer instanceof Uint8Array)) assert.fail(`the key '${keyId}' is ${answer === 'forgotten' ? 'forgotten' : typeof answer}`)
  assert.equal(answer.byteLength, 32, `the bytes of the key '${keyId}'`)
  return new Uint8Array(answer)
}

export function assertSameKey(answer: KeyAnswer, expected: Uint8Array, keyId: string): void {
  assert.ok(Buffer.compare(assertKey(answer, keyId), expected) === 0, `the key '${keyId}' is another one`)
}

export async function assertNoKey(ring: KeyRing, keyId: string): Promise<void> {
  assert.ok((await get(ring, keyId)) === undefined, `there is a key '${keyId}'`)
}

export async function assertForgotten(ring: KeyRing, keyId: string): Promise<void> {
  assert.ok((await get(ring, keyId)) === 'forgotten', `readers find that the key '${keyId}' is not forgotten`)
  assert.ok((await getToWrite(ring, keyId)) === 'forgotten', `writers find that the key '${keyId}' is not forgotten`)
}
