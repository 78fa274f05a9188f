import { describe, expect, it } from 'vitest'
import type { S3ObjectsClient } from '../../src/index.ts'
import { keysOf, methodsOf, openBucket } from '../support/buckets.ts'
import { never } from '../support/world.ts'

const utf8 = new TextEncoder()

describe.concurrent('s3Objects()', () => {
  it('keeps its objects below its prefix, and sees no others', async () => {
    await using world = await openBucket()
    const [orders, invoices] = [world.objects({ prefix: 'a/orders/' }), world.objects({ prefix: 'a/' })]
    await orders.put('one', utf8.encode('1'), { signal: never })
    await invoices.put('two', utf8.encode('2'), { signal: never })

    expect(await world.names()).toEqual(['a/orders/one', 'a/two'])
    expect(await orders.get('two', { signal: never })).toBeUndefined()
    expect(await keysOf(orders)).toEqual(['one'])
    await orders.delete(['two', 'one'])
    expect(await world.names()).toEqual(['a/two'])
  })

  it('lists no objects that it cannot have written', async () => {
    await using world = await openBucket()
    for (const name of ['payloads/', 'payloads/.hidden', 'payloads/with space', 'payloads/a//b', 'payloads/real', 'payloads-2']) {
      await world.client.putObject({ Bucket: world.bucket, Key: name, Body: 'x' })
    }
    expect(await keysOf(world.objects({ prefix: 'payloads/' }))).toEqual(['real'])
  })

  it('deletes in requests of up to 1,000 objects', async () => {
    await using world = await openBucket()
    const sizes: number[] = []
    const deleteObjects: S3ObjectsClient['deleteObjects'] = (input) => {
      sizes.push(input.Delete.Objects.length)
      return world.client.deleteObjects(input)
    }
    const objects = world.objects({ client: { ...methodsOf(world.client), deleteObjects } })
    const keys = Array.from({ length: 2001 }, (_, index) => `k${index}`)
    for (const key of ['k0', 'k999', 'k1000', 'k2000', 'kept']) await objects.put(key, utf8.encode(key), { signal: never })

    await objects.delete(keys)
    expect(sizes).toEqual([1000, 1000, 1])
    expect(await world.names()).toEqual(['kept'])
    await objects.delete([])
    expect(sizes).toHaveLength(3)
  })

  it('reports a missing bucket as a fault that may pass', async () => {
    await using world = await openBucket()
    const bucket = `${world.bucket}-missing`
    const objects = world.objects({ bucket })
    const calls = [
      objects.put('key', utf8.encode('x'), { signal: never }),
      objects.get('key', { signal: never }),
      objects.delete(['key']),
      keysOf(objects),
    ]
    for (const result of await Promise.allSettled(calls)) {
      expect(result).toMatchObject({ status: 'rejected', reason: { cause: { name: 'NoSuchBucket' } } })
      const text = result.status === 'rejected' ? String(result.reason) : ''
      expect(text).toContain(`in bucket '${bucket}': the bucket does not exist`)
      expect(result).not.toMatchObject({ reason: { retryable: false } })
    }
  })
})
