import { describe, expect, it } from 'vitest'
import { fromIoredis, type IoredisClient } from '../../src/index.ts'
import { type StreamSourceOptions, streamPublisher, streamSource } from '../../src/streams/index.ts'

/** A client that must not be used: constructing a source or publisher sends nothing. */
function unused(isCluster: boolean): IoredisClient {
  const fail = () => {
    throw new Error('Nothing may be sent.')
  }
  return {
    options: {},
    isCluster,
    status: 'ready',
    call: fail,
    callBuffer: fail,
    duplicate: fail,
    connect: fail,
    disconnect: fail,
    on: fail,
  }
}

const redis = fromIoredis(unused(false))
const cluster = fromIoredis(unused(true))

describe('the options of a stream source', () => {
  it.each<[string, Partial<StreamSourceOptions>]>([
    ['stream', { stream: '' }],
    ['group', { group: '' }],
    ['logger', { logger: {} as never }],
    ['stream', { stream: 'a\ud800' }],
    ['group', { group: 'a\udfff' }],
    ['deadLetter', { deadLetter: '\udfffa' }],
    ['shards', { shards: 0 }],
    ['order', { order: 'total' as never }],
    ['from', { from: '$' as never }],
    ['prefetch', { prefetch: 0 }],
    ['maxDeliveries', { maxDeliveries: 1.5 }],
    ['deadLetter', { deadLetter: '' }],
    ['deadLetterTimeout', { deadLetterTimeout: 0 }],
    ['read', { read: 'x' as never }],
    ['block', { block: 0 }],
    ['claimIdle', { claimIdle: -1 }],
    ['claimInterval', { claimInterval: Number.NaN }],
    ['lease', { lease: 0 }],
    ['trimInterval', { trimInterval: 0 }],
    ['backoff', { backoff: 5 as never }],
    ['blok', { blok: 5 } as never],
  ])('refuses a wrong %s by its name', (option, wrong) => {
    expect(() => streamSource(redis, { stream: 'orders', group: 'billing', ...wrong })).toThrow(option)
  })

  it('refuses a dead-letter stream in another slot of a cluster, and says how to name it [B17]', () => {
    expect(() => streamSource(cluster, { stream: 'orders', group: 'billing', deadLetter: 'letters' })).toThrow("'{orders}:dead'")
    expect(() => streamSource(cluster, { stream: 'orders', group: 'billing', deadLetter: '{orders}:letters' })).not.toThrow()
    expect(() => streamSource(redis, { stream: 'orders', group: 'billing', deadLetter: 'letters' })).not.toThrow()
  })
})

describe('the options of a stream publisher', () => {
  it('refuses what cannot work', () => {
    expect(() => streamPublisher(redis, { shards: 0 })).toThrow('shards')
    expect(() => streamPublisher(redis, { stream: 'x' as never })).toThrow('stream')
    expect(() => streamPublisher(redis, { maxSize: 0 })).toThrow('maxSize')
    expect(() => streamPublisher(redis, { maxlen: 5 } as never)).toThrow('maxlen')
  })
})
