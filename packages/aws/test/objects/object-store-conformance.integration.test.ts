import { type ObjectWorld, ResultTable, testObjectStore } from '@ackord/testkit/suites'
import { S3 } from '@aws-sdk/client-s3'
import { afterAll, describe, it } from 'vitest'
import { type S3ObjectsClient, type S3ObjectsOptions, s3Objects } from '../../src/index.ts'
import { bucketSettings, methodsOf, openBucket } from '../support/buckets.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

/**
 * S3 lists 1,000 objects per request. A smaller number has the same pages with fewer objects, but not with fewer than the keys that look alike: the emulator sorts keys by
 * locale and continues by code units, which repeats some of them on the next page.
 */
const pageSize = 20

async function openObjects(options: Partial<S3ObjectsOptions> = {}): Promise<ObjectWorld> {
  const world = await openBucket()
  const clients = [world.client]
  const storeOf = (client: S3) => {
    const listObjectsV2: S3ObjectsClient['listObjectsV2'] = (input, call) => client.listObjectsV2({ ...input, MaxKeys: pageSize }, call)
    return s3Objects({ bucket: world.bucket, ...options, client: { ...methodsOf(client), listObjectsV2 } })
  }
  return {
    store: storeOf(world.client),
    async another() {
      const client = new S3(bucketSettings())
      clients.push(client)
      return storeOf(client)
    },
    async [Symbol.asyncDispose]() {
      await world[Symbol.asyncDispose]()
      for (const client of clients) client.destroy()
    },
  }
}

const runner = { describe: describe.concurrent, it }
testObjectStore(runner, { name: 'S3', open: () => openObjects(), features: { pageSize }, results })
testObjectStore(runner, {
  name: 'S3, prefix',
  open: () => openObjects({ prefix: 'a/payloads/' }),
  features: { pageSize },
  depth: 'basic',
  results,
})
