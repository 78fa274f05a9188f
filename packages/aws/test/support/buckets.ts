import { S3 } from '@aws-sdk/client-s3'
import { ownName } from '../../../../scripts/test-run.mjs'
import { type S3ObjectsClient, type S3ObjectsOptions, s3Objects } from '../../src/index.ts'
import { clientSettings, sqsUrl } from './world.ts'

export interface BucketWorld extends AsyncDisposable {
  readonly client: S3
  /** An empty bucket, deleted at the end with its objects. */
  readonly bucket: string
  objects(options?: Partial<S3ObjectsOptions>): ReturnType<typeof s3Objects>
  /** The names of all objects in the bucket. */
  names(): Promise<string[]>
}

/** The settings of an `S3` for an endpoint without host names per bucket. */
export function bucketSettings(endpoint: string = sqsUrl) {
  return { ...clientSettings(endpoint), forcePathStyle: true }
}

export async function openBucket(): Promise<BucketWorld> {
  const client = new S3(bucketSettings())
  const bucket = `ackord-test-${ownName()}`
  await client.createBucket({ Bucket: bucket })
  const names = async () => {
    const { Contents = [] } = await client.listObjectsV2({ Bucket: bucket })
    return Contents.map(({ Key = '' }) => Key)
  }
  const removeAll = async () => {
    const Objects = (await names()).map((Key) => ({ Key }))
    if (Objects.length > 0) await client.deleteObjects({ Bucket: bucket, Delete: { Objects } })
  }
  return {
    client,
    bucket,
    objects: (options = {}) => s3Objects({ client, bucket, ...options }),
    names,
    async [Symbol.asyncDispose]() {
      await removeAll()
      await client.deleteBucket({ Bucket: bucket })
      client.destroy()
    },
  }
}

/** The methods that the store uses, for a test that replaces one. */
export function methodsOf(client: S3): S3ObjectsClient {
  return {
    putObject: (input, options) => client.putObject(input, options),
    getObject: (input, options) => client.getObject(input, options),
    deleteObjects: (input, options) => client.deleteObjects(input, options),
    listObjectsV2: (input, options) => client.listObjectsV2(input, options),
  }
}

/** The keys of all objects that a store lists, sorted. */
export async function keysOf(objects: ReturnType<typeof s3Objects>, olderThan: Date = new Date(Date.now() + 60_000)): Promise<string[]> {
  const keys: string[] = []
  for await (const { key } of objects.list({ olderThan })) keys.push(key)
  return keys.sort()
}
