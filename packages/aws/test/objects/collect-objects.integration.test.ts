import { type RawMessage, systemRuntime } from '@ackord/core'
import { claimCheck, collectObjects, decodePayload, encodePayload } from '@ackord/core/payload'
import { expect, it } from 'vitest'
import { openBucket } from '../support/buckets.ts'
import { event, never } from '../support/world.ts'

const hour = 3_600_000

it('collects the objects of messages that were never sent, by their age, and keeps younger ones', async () => {
  await using world = await openBucket()
  const store = world.objects({ prefix: 'payloads/' })
  // The hour of the keys has ended, so that the age of the objects decides.
  const keyedAt = systemRuntime.now() - hour
  const codecs = [claimCheck({ store, above: 0, runtime: { ...systemRuntime, now: () => keyedAt } })]
  for (const Key of ['other-data', 'payloads/backup.json']) await world.client.putObject({ Bucket: world.bucket, Key, Body: 'not ours' })
  const storedAt = async (key: string) => {
    for await (const object of store.list({ olderThan: new Date(8e15) })) if (object.key === key) return object.storedAt.getTime()
    throw new Error(`There is no object '${key}'.`)
  }
  const keyOf = (message: RawMessage) => String(JSON.parse(Buffer.from(message.data).toString()).key)

  const orphan = await encodePayload(event('orphan'), codecs)
  const orphanAt = await storedAt(keyOf(orphan))
  let young = await encodePayload(event('young'), codecs)
  // A repeat makes the object younger, so that it is in a later millisecond at last.
  while ((await storedAt(keyOf(young))) <= orphanAt) young = await encodePayload(event('young'), codecs)

  const runtime = { ...systemRuntime, now: () => orphanAt + 1 + hour }
  const collect = () => collectObjects({ store, olderThan: hour, runtime })
  expect(await collect()).toBe(1)
  expect(await collect()).toBe(0)
  expect(await world.names()).toEqual(['other-data', `payloads/${keyOf(young)}`, 'payloads/backup.json'])
  expect(Buffer.from((await decodePayload(young, codecs)).data).toString()).toBe('{"id":"young"}')
  await expect(decodePayload(orphan, codecs)).rejects.toMatchObject({ code: 'ACKORD_PAYLOAD_MISSING', retryable: false })
})

it('retries a message while S3 cannot be reached or refuses, instead of rejecting it', async () => {
  await using world = await openBucket()
  const codecs = (bucket: string) => [claimCheck({ store: world.objects({ bucket }), above: 0 })]
  const sent = await encodePayload(event('e1'), codecs(world.bucket))
  const error: unknown = await decodePayload(sent, codecs(`${world.bucket}-missing`)).catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: 'ACKORD_CODEC_FAILED', retryable: true, cause: { cause: { name: 'NoSuchBucket' } } })
})

it('verifies what it reads: a changed object is rejected', async () => {
  await using world = await openBucket()
  const codecs = [claimCheck({ store: world.objects(), above: 0 })]
  const sent = await encodePayload(event('e1'), codecs)
  const [Key = ''] = await world.names()
  const changed = (Body: string) => world.client.putObject({ Bucket: world.bucket, Key, Body })
  await changed('{"id":"e2"}')
  await expect(decodePayload(sent, codecs, { signal: never })).rejects.toMatchObject({ code: 'ACKORD_PAYLOAD_INVALID', retryable: false })
  await changed('{"id":"e1", "more": true}')
  await expect(decodePayload(sent, codecs)).rejects.toMatchObject({ name: 'ObjectTooLargeError', retryable: false })
})
