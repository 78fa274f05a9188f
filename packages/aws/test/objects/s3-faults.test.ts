import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { deferred } from '@ackord/testkit'
import { S3 } from '@aws-sdk/client-s3'
import { describe, expect, it } from 'vitest'
import { type S3ObjectsOptions, s3Objects } from '../../src/index.ts'
import { bucketSettings, keysOf } from '../support/buckets.ts'
import { type HttpServer, type ReceivedRequest, startHttpServer } from '../support/http-server.ts'
import { never } from '../support/world.ts'

type Handle = (request: ReceivedRequest, response: ServerResponse) => void

const utf8 = new TextEncoder()

interface FaultWorld extends AsyncDisposable {
  readonly server: HttpServer
  readonly objects: ReturnType<typeof s3Objects>
}

/** A store whose S3 answers as the test says. */
async function openFaults(handle: Handle, options: Partial<S3ObjectsOptions> = {}): Promise<FaultWorld> {
  const server = await startHttpServer(handle)
  const client = new S3(bucketSettings(server.url))
  return {
    server,
    objects: s3Objects({ client, bucket: 'payloads', ...options }),
    async [Symbol.asyncDispose]() {
      client.destroy()
      await server[Symbol.asyncDispose]()
    },
  }
}

function refuse(status: number, code: string): Handle {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/xml' })
    response.end(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>Refused by the test.</Message></Error>`)
  }
}

describe.concurrent('s3Objects() and an S3 that fails', () => {
  it('sends an object in one piece, with its SHA-256 for S3 to verify', async () => {
    await using world = await openFaults((_request, response) => void response.end())
    await world.objects.put('a/key', utf8.encode('twelve bytes'), { signal: never })

    const [request] = world.server.requests
    expect(request).toMatchObject({ method: 'PUT', path: expect.stringMatching(/^\/payloads\/a\/key(\?|$)/) })
    expect(request?.body.toString()).toBe('twelve bytes')
    expect(request?.headers).toMatchObject({
      'content-length': '12',
      'content-type': 'application/octet-stream',
      'x-amz-checksum-sha256': createHash('sha256').update('twelve bytes').digest('base64'),
    })
    expect(request?.headers).not.toHaveProperty('content-encoding')
    expect(Object.keys(request?.headers ?? {}).filter((name) => name.startsWith('x-amz-checksum'))).toEqual(['x-amz-checksum-sha256'])
  })

  it.each([
    ['an object that does not have the announced SHA-256', 400, 'BadDigest', 'S3 did not answer, or reported an error'],
    ['a denied access', 403, 'AccessDenied', 'S3 did not allow it'],
    ['expired credentials', 400, 'ExpiredToken', 'S3 did not allow it'],
    ['a bucket that does not exist', 404, 'NoSuchBucket', 'the bucket does not exist'],
    ['throttling', 503, 'SlowDown', 'S3 did not answer, or reported an error'],
    ['an internal error', 500, 'InternalError', 'S3 did not answer, or reported an error'],
  ])('rejects with a fault that may pass: %s', async (_title, status, code, reason) => {
    await using world = await openFaults(refuse(status, code))
    const storing = world.objects.put('key', utf8.encode('x'), { signal: never })
    const results = await Promise.allSettled([storing, world.objects.get('key', { signal: never })])
    for (const [index, verb] of ['store', 'read'].entries()) {
      const text = `Cannot ${verb} the object 'key' in bucket 'payloads': ${reason}`
      expect(results[index]).toMatchObject({
        status: 'rejected',
        reason: { message: expect.stringContaining(text), cause: { name: code } },
      })
      expect(results[index]).not.toMatchObject({ reason: { retryable: false } })
    }
  })

  it('takes only NoSuchKey for an object that does not exist, not any 404', async () => {
    await using world = await openFaults((request, response) =>
      request.path.includes('missing') ? refuse(404, 'NoSuchKey')(request, response) : void response.writeHead(404).end('not here'),
    )
    expect(await world.objects.get('missing', { signal: never })).toBeUndefined()
    await expect(world.objects.get('other', { signal: never })).rejects.toThrow("Cannot read the object 'other'")
  })

  it('refuses an object whose announced size is too large without reading it', async () => {
    const closed = deferred<boolean>()
    await using world = await openFaults((_request, response) => {
      response.on('close', () => closed.resolve(response.writableFinished))
      response.writeHead(200, { 'content-length': '50000000' })
      response.write(new Uint8Array(100))
    })
    const error: unknown = await world.objects.get('key', { signal: never, maxBytes: 99 }).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ name: 'ObjectTooLargeError', code: 'ACKORD_PAYLOAD_INVALID', retryable: false })
    expect(error).toMatchObject({ message: expect.stringContaining('50000000 bytes') })
    expect(await closed.promise).toBe(false)
  })

  it('stops reading an object of unknown size at the limit', async () => {
    const closed = deferred<boolean>()
    await using world = await openFaults((_request, response) => {
      response.on('close', () => closed.resolve(response.writableFinished))
      response.write(new Uint8Array(100))
    })
    await expect(world.objects.get('key', { signal: never, maxBytes: 99 })).rejects.toMatchObject({ name: 'ObjectTooLargeError' })
    expect(await closed.promise).toBe(false)
  })

  it('closes the connection when the signal is aborted while a body arrives', async () => {
    const [started, closed] = [deferred<void>(), deferred<boolean>()]
    await using world = await openFaults((_request, response) => {
      response.on('close', () => closed.resolve(response.writableFinished))
      response.writeHead(200, { 'content-length': '1000' })
      response.write(new Uint8Array(100), () => started.resolve())
    })
    const controller = new AbortController()
    const reading = world.objects.get('key', { signal: controller.signal })
    reading.catch(() => {}) // awaited below
    await started.promise
    const reason = new Error('given up')
    controller.abort(reason)
    await expect(reading).rejects.toBe(reason)
    expect(await closed.promise).toBe(false)
  })

  it('rejects with the reason of an abort before the answer, and sends nothing after one', async () => {
    const arrived = deferred<void>()
    await using world = await openFaults(() => arrived.resolve())
    const [controller, reason] = [new AbortController(), new Error('given up')]
    const storing = world.objects.put('key', utf8.encode('x'), { signal: controller.signal })
    storing.catch(() => {}) // awaited below
    await arrived.promise
    controller.abort(reason)
    await expect(storing).rejects.toBe(reason)
    await expect(world.objects.put('key', utf8.encode('x'), { signal: controller.signal })).rejects.toBe(reason)
    await expect(world.objects.get('key', { signal: controller.signal })).rejects.toBe(reason)
    expect(world.server.requests).toHaveLength(1)
  })

  it('ends every request by the time limit, also one whose body stops arriving', async () => {
    await using world = await openFaults(
      (request, response) => {
        if (request.path.includes('stops')) response.writeHead(200, { 'content-length': '10' }).write('half')
      },
      { timeout: 300 },
    )
    const { objects } = world
    const calls = [
      objects.put('key', utf8.encode('x'), { signal: never }),
      objects.get('key', { signal: never }),
      objects.get('stops', { signal: never }),
      objects.delete(['key']),
      keysOf(objects),
    ]
    for (const result of await Promise.allSettled(calls)) {
      expect(result).toMatchObject({ reason: { cause: { message: 'AWS did not answer within 300 ms.' } } })
    }
  })

  it('never returns a part of an object', async () => {
    await using world = await openFaults((_request, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write(new Uint8Array(100), () => response.destroy())
    })
    const error: unknown = await world.objects.get('key', { signal: never }).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ message: expect.stringContaining("Cannot read the object 'key'") })
    expect(error).not.toHaveProperty('retryable', false)
  })

  it('rejects an object that does not have the SHA-256 that S3 announces', async () => {
    const announced = createHash('sha256').update('other bytes').digest('base64')
    await using world = await openFaults((_request, response) => {
      response.writeHead(200, { 'x-amz-checksum-sha256': announced }).end('these bytes')
    })
    await expect(world.objects.get('key', { signal: never })).rejects.toMatchObject({
      cause: { message: expect.stringContaining('Checksum mismatch') },
    })
  })

  it('reads the body of a client with a fetch handler, and cancels it at the limit', async () => {
    const cancelled = deferred<void>()
    const bodies = [
      new Blob(['whole object']).stream(),
      new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(100)), cancel: () => cancelled.resolve() }),
    ]
    const refuse = () => Promise.reject(new Error('not called'))
    const client = {
      putObject: refuse,
      deleteObjects: refuse,
      listObjectsV2: refuse,
      getObject: () => Promise.resolve({ Body: bodies.shift() }),
    }
    const objects = s3Objects({ client, bucket: 'payloads' })
    expect(Buffer.from((await objects.get('key', { signal: never })) ?? []).toString()).toBe('whole object')
    await expect(objects.get('key', { signal: never, maxBytes: 250 })).rejects.toMatchObject({ name: 'ObjectTooLargeError' })
    await cancelled.promise
  })

  it('reports the objects that S3 did not delete, after it has tried all', async () => {
    await using world = await openFaults((request, response) => {
      const keys = [...request.body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key)
      const errors = [
        ...keys.filter((key) => key?.startsWith('locked')).map((key) => ({ key, code: 'AccessDenied' })),
        ...keys.filter((key) => key === 'gone').map((key) => ({ key, code: 'NoSuchKey' })),
      ]
      const xml = errors.map(({ key, code }) => `<Error><Key>${key}</Key><Code>${code}</Code><Message>no</Message></Error>`)
      response.writeHead(200, { 'content-type': 'application/xml' })
      response.end(`<?xml version="1.0" encoding="UTF-8"?><DeleteResult>${xml.join('')}</DeleteResult>`)
    })
    await world.objects.delete(['gone'])
    const keys = Array.from({ length: 1005 }, (_, index) => (index % 200 === 0 ? `locked${index}` : `k${index}`))
    const error: unknown = await world.objects.delete(keys).catch((reason: unknown) => reason)
    expect(error).toMatchObject({
      message:
        "S3 did not delete 6 of 1005 objects in bucket 'payloads': 'locked0' (AccessDenied), 'locked200' (AccessDenied), 'locked400' (AccessDenied) and 3 more.",
    })
    expect(world.server.requests).toHaveLength(3)
  })

  it('rejects while S3 cannot be reached', async () => {
    await using world = await openFaults(() => {})
    await world.server[Symbol.asyncDispose]()
    await expect(world.objects.get('key', { signal: never })).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
  })
})

describe('the options of s3Objects()', () => {
  const client = new S3(bucketSettings('http://127.0.0.1:9'))

  it.each([
    ['client', { client: { send: () => {} } }],
    ['client', { client: undefined }],
    ['bucket', { bucket: '' }],
    ['prefix', { prefix: 'payloads' }],
    ['prefix', { prefix: '/' }],
    ['prefix', { prefix: '../' }],
    ['prefix', { prefix: 7 }],
    ['timeout', { timeout: 0 }],
    ['pefix', { pefix: 'payloads/' }],
  ])('refuse a wrong %s: %o', (name, wrong) => {
    const options = { client, bucket: 'payloads', ...wrong } as S3ObjectsOptions
    expect(() => s3Objects(options)).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
    )
  })

  it.each(['../escape', '', '/a', 'a//b', '.hidden', 'with space', 'k'.repeat(513)])('refuse the key %o', async (key) => {
    const objects = s3Objects({ client, bucket: 'payloads' })
    const wrong = { code: 'ACKORD_INVALID_OPTION' }
    await expect(objects.put(key, utf8.encode('x'), { signal: never })).rejects.toMatchObject(wrong)
    await expect(objects.get(key, { signal: never })).rejects.toMatchObject(wrong)
    await expect(objects.delete(['fine', key])).rejects.toMatchObject(wrong)
  })
})
