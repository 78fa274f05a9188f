import { createHash } from 'node:crypto'
import { InvalidOptionError, type Runtime, systemRuntime } from '@ackord/core'
import { checkDuration, checkName, inChunks, rejectUnknownOptions } from '@ackord/core/internal'
import { checkObjectKey, isObjectKey, type ObjectStore, ObjectTooLargeError, type StoredObject } from '@ackord/core/payload'
import { codeOf, isDenied, isMissing } from '../aws-errors.ts'
import { type AwsRequestOptions, checkClient } from '../client.ts'
import { request } from '../requests.ts'
import { readBody } from './read-body.ts'
import type { S3DeletionFailure, S3ObjectsClient } from './s3-client.ts'

export interface S3ObjectsOptions {
  /** An `S3` of `@aws-sdk/client-s3`, such as `new S3({ region })`. It is not closed. */
  readonly client: S3ObjectsClient
  /** The name of the bucket, or the ARN of its access point. It must exist. */
  readonly bucket: string
  /** Precedes all keys, such as `payloads/`: the store lists no other objects of the bucket. It ends with a slash. Default: none, the whole bucket. */
  readonly prefix?: string | undefined
  /** Milliseconds that a request may take, with the attempts of the SDK. A shorter `codecTimeout` comes first. Default: 30,000. */
  readonly timeout?: number | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** S3 deletes up to 1,000 objects in a request. */
const deletionLimits = { count: 1000, size: Number.POSITIVE_INFINITY }

/**
 * An object store for `claimCheck()` in a bucket of S3, or of a service with the same API. S3 stores an object completely or not at all, and refuses one whose
 * SHA-256 is not that of the bytes that were sent.
 *
 * The credentials need `s3:PutObject`, `s3:GetObject` and, for `collectObjects()`, `s3:DeleteObject` on the objects, and always `s3:ListBucket` on the bucket: without
 * it S3 reports an object that does not exist as a denied access, and its message would be retried instead of rejected.
 */
export function s3Objects(options: S3ObjectsOptions): ObjectStore {
  const { client, bucket, prefix = '', timeout = 30_000, runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions('s3Objects()', unknown)
  checkClient(client, 'S3', ['putObject', 'getObject', 'deleteObjects', 'listObjectsV2'])
  checkName('bucket', bucket)
  checkPrefix(prefix)
  checkDuration('timeout', timeout, { min: 1 })
  const nameOf = (key: string) => `${prefix}${checkObjectKey(key)}`

  // Deleting and listing are not aborted: they end by their time limit.
  const unaborted = () => new AbortController().signal

  /** `action` begins the message of the error, such as `Cannot store the object 'key'`. */
  async function call<T>(action: string, signal: AbortSignal, send: (options: Required<AwsRequestOptions>) => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    try {
      return await request(runtime, timeout, signal, send)
    } catch (error) {
      if (signal.aborted || error instanceof ObjectTooLargeError) throw error
      throw new Error(`${action} in bucket '${bucket}': ${reasonOf(error)}`, { cause: error })
    }
  }

  async function deleteBatch(names: readonly string[]): Promise<readonly S3DeletionFailure[]> {
    const input = { Bucket: bucket, Delete: { Objects: names.map((Key) => ({ Key })), Quiet: true } }
    const { Errors = [] } = await call('Cannot delete objects', unaborted(), (options) => client.deleteObjects(input, options))
    return Errors.filter(({ Code }) => Code !== 'NoSuchKey')
  }

  async function* list(olderThan: Date): AsyncGenerator<StoredObject, void, void> {
    let token: string | undefined
    do {
      const input = { Bucket: bucket, ...(prefix !== '' && { Prefix: prefix }), ...(token !== undefined && { ContinuationToken: token }) }
      const page = await call('Cannot list the objects', unaborted(), (options) => client.listObjectsV2(input, options))
      for (const { Key: name, LastModified: storedAt } of page.Contents ?? []) {
        const key = name?.slice(prefix.length)
        // Objects with other names are not of this store, which cannot delete them.
        if (isObjectKey(key) && storedAt !== undefined && storedAt < olderThan) yield { key, storedAt }
      }
      token = page.NextContinuationToken
    } while (token !== undefined)
  }

  return {
    async put(key, bytes, { signal }) {
      const ChecksumSHA256 = createHash('sha256').update(bytes).digest('base64')
      const object = {
        Bucket: bucket,
        Key: nameOf(key),
        Body: bytes,
        ContentLength: bytes.byteLength,
        ContentType: 'application/octet-stream',
      }
      await call(`Cannot store the object '${key}'`, signal, (options) => client.putObject({ ...object, ChecksumSHA256 }, options))
    },

    async get(key, { signal, maxBytes }) {
      const input = { Bucket: bucket, Key: nameOf(key) }
      return await call(`Cannot read the object '${key}'`, signal, async (options) => {
        try {
          const { Body: body, ContentLength: announced } = await client.getObject(input, options)
          return await readBody(body, { key, announced, maxBytes, signal: options.abortSignal })
        } catch (error) {
          // Not the status 404, which a missing bucket and a proxy have as well.
          if (codeOf(error) === 'NoSuchKey') return undefined
          throw error
        }
      })
    },

    async delete(keys) {
      const failures: S3DeletionFailure[] = []
      for (const batch of inChunks(keys.map(nameOf), deletionLimits, () => 0)) failures.push(...(await deleteBatch(batch)))
      if (failures.length > 0) throw deletionFailed(bucket, failures, keys.length)
    },

    list: ({ olderThan }) => list(olderThan),
  }
}

function checkPrefix(prefix: unknown): void {
  if (prefix === '' || (typeof prefix === 'string' && prefix.endsWith('/') && isObjectKey(prefix.slice(0, -1)))) return
  throw new InvalidOptionError(
    'prefix',
    "must be a short string of letters, digits and '-_./' that ends with a slash, such as 'payloads/'.",
  )
}

function reasonOf(error: unknown): string {
  if (isMissing(error)) return 'the bucket does not exist, or is in another account or region. Create it, or correct the option.'
  if (isDenied(error)) return 'S3 did not allow it; the cause says why. Check credentials, policies and key.'
  return 'S3 did not answer, or reported an error; the cause says which one.'
}

function deletionFailed(bucket: string, failures: readonly S3DeletionFailure[], count: number): Error {
  const shown = failures.slice(0, 3).map(({ Key = '', Code = 'unknown' }) => `'${Key}' (${Code})`)
  const more = failures.length > shown.length ? ` and ${failures.length - shown.length} more` : ''
  const text = `S3 did not delete ${failures.length} of ${count} objects in bucket '${bucket}': ${shown.join(', ')}${more}.`
  return new AggregateError(
    failures.map(({ Key = '', Code = 'unknown', Message = '' }) => Object.assign(new Error(`${Key}: ${Message}`), { name: Code })),
    text,
  )
}
