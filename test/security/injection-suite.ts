import { type Context, isAckordError, Message, type Middleware, rootContext } from '@ackord/core'
import type { NewOutboxRecord, OutboxAdmin, OutboxRecord, OutboxStore } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { canBeStored, mark, randomTexts, specials } from './odd-texts.ts'

/** A store that reports its statements, on a server with other data that must not change. */
export interface WatchedStore extends AsyncDisposable {
  readonly outbox: OutboxStore & OutboxAdmin
  /** Stores the records in one transaction. */
  append(records: readonly NewOutboxRecord[]): Promise<void>
  /** An inbox for this consumer, with its transaction. */
  inbox(consumer: string): Middleware
  /** All statements or scripts sent so far, without their parameters. */
  texts(): Promise<readonly string[]>
  /** The other tables and keys on the server, with their contents. */
  surroundings(): Promise<unknown>
}

export interface InjectionSubject {
  readonly name: string
  open(): Promise<WatchedStore>
  /** The number of random texts that are stored. */
  readonly count: number
  /** The number of messages that pass through the inbox, one by one. */
  readonly messages: number
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

function recordOf(text: string, place: number, destination: string): NewOutboxRecord {
  const attributes = { id: `${place} ${text}`, type: text, source: text, specversion: '1.0', subject: text, partitionkey: text }
  return { destination, message: new Message(encoder.encode(text), attributes) }
}

async function listAll(outbox: OutboxAdmin): Promise<OutboxRecord[]> {
  const all: OutboxRecord[] = []
  for (let after: string | undefined, first = true; first || after !== undefined; first = false) {
    const page = await outbox.list({}, { limit: 500, after })
    all.push(...page.records)
    after = page.next
  }
  return all
}

/** Tests that no user input reaches a statement, a script or a location that it is not meant for. */
export function testInjection({ name, open, count, messages }: InjectionSubject): void {
  async function watched(work: (store: WatchedStore) => Promise<void>): Promise<void> {
    await using store = await open()
    const before = await store.surroundings()
    await work(store)
    expect(await store.surroundings()).toEqual(before)
    const texts = await store.texts()
    expect(texts.length).toBeGreaterThan(0)
    expect(texts.filter((text) => text.includes(mark))).toEqual([])
  }

  describe(`user input on ${name}`, () => {
    it('is stored unchanged or refused with a clear error, in ids, types, keys, attributes, data and destinations', async () => {
      await watched(async (store) => {
        const stored: NewOutboxRecord[] = []
        for (const [place, text] of specials.entries()) {
          const record = recordOf(text, place, text)
          try {
            await store.append([record])
            stored.push(record)
          } catch (error) {
            expect(isAckordError(error), `${JSON.stringify(text)}: ${String(error)}`).toBe(true)
            expect(canBeStored(text) && text.length < 500, `${JSON.stringify(text)}: ${String(error)}`).toBe(false)
          }
        }
        expect(stored.length).toBeGreaterThan(60)
        const found = await listAll(store.outbox)
        expect(found.map(seen).toSorted()).toEqual(stored.map(seen).toSorted())
      })
    })

    it(`is stored unchanged and returned by a claim: ${count} random texts`, async () => {
      await watched(async (store) => {
        const texts = randomTexts(count).filter(canBeStored)
        expect(texts.length).toBeGreaterThan(count / 3)
        const records = texts.map((text, place) => recordOf(text, place, `${mark}'";--${place % 5}`))
        for (let from = 0; from < records.length; from += 500) await store.append(records.slice(from, from + 500))
        const claimed: string[] = []
        for (;;) {
          const batch = await store.outbox.claim({ limit: 500, lease: 60_000 })
          if (batch.length === 0) break
          claimed.push(...batch.map(seen))
          await store.outbox.settle(batch.map(({ id, token }) => ({ id, token, result: 'published' })))
        }
        expect(claimed.toSorted()).toEqual(records.map(seen).toSorted())
      })
    })

    it('is safe in error texts, filters and edits of operators', async () => {
      await watched(async (store) => {
        const texts = specials.filter((text) => canBeStored(text) && text.length < 500)
        await store.append(texts.map((text, place) => recordOf(text, place, text)))
        const claimed = await store.outbox.claim({ limit: 500, lease: 60_000 })
        // Uses all kinds of text, because an error, unlike an attribute, may contain any character.
        const errors = new Map(claimed.map(({ id }, index) => [id, specials[(index * 7) % specials.length] ?? '']))
        await store.outbox.settle(claimed.map(({ id, token }) => ({ id, token, result: 'parked', error: errors.get(id) ?? '' })))
        for (const { id, destination, message } of claimed) {
          const filter = {
            state: 'parked',
            destination,
            type: String(message.type),
            orderingKey: String(message.attributes.partitionkey),
          } as const
          const page = await store.outbox.list(filter, { limit: 10 })
          expect(page.records.map((record) => record.id)).toEqual([id])
          expect(printable(page.records[0]?.lastError ?? '')).toBe(printable(errors.get(id) ?? ''))
        }
        const [first, second, ...others] = claimed
        if (first === undefined || second === undefined) throw new Error('Expected two records.')
        const edit = { destination: `${mark}'"`, attributes: { subject: `${mark}\\'` }, data: encoder.encode(mark) }
        expect(await store.outbox.rearm({ filter: { destination: first.destination, type: String(first.message.type) } }, edit)).toBe(1)
        // In some stores a record that is moved gets a new id.
        const moved = await store.outbox.list({ destination: edit.destination }, { limit: 10 })
        expect(moved.records).toMatchObject([{ state: 'ready', message: { attributes: edit.attributes } }])
        expect(await store.outbox.rearm({ ids: [second.id, `1' OR '1'='1`, `${mark}`] })).toBe(1)
        expect(await store.outbox.discard([...others.map(({ id }) => id), `${mark}'; --`], `${mark}'; DROP TABLE canary; --`)).toBe(
          others.length,
        )
        expect((await listAll(store.outbox)).length).toBe(2)
        expect(await store.outbox.get(`${mark}' OR '1'='1`)).toBeUndefined()
        const claims = await store.outbox.claim({
          limit: 10,
          lease: 1000,
          destinations: [`${mark}'"`, `${mark}none`],
          except: [`${mark}\\`],
        })
        expect(claims).toHaveLength(1)
        expect(await store.outbox.renew([{ id: first.id, token: `${mark}' OR ''='` }], 1000)).toEqual([false])
        expect(await store.outbox.settle([{ id: first.id, token: `${mark}' OR ''='`, result: 'published' }])).toEqual(['lost'])
      })
    })

    it('is distinguished by the inbox, byte for byte, or refused', async () => {
      await watched(async (store) => {
        const consumers = [`${mark}orders'; --`, `${mark}orders"\\`]
        const texts = [...new Set([...specials, ...randomTexts(messages)])]
        let handled = 0
        let refused = 0
        for (const consumer of consumers) {
          const process = store.inbox(consumer)(async () => {
            handled += 1
            return []
          })
          const deliver = async (text: string) => {
            const message = new Message(null, { id: text, source: text, type: 'order.place', specversion: '1.0' })
            const context: Context = message.context(rootContext())
            await process(message, context)
          }
          const accepted: string[] = []
          for (const text of texts) {
            try {
              await deliver(text)
              accepted.push(text)
            } catch (error) {
              expect(isAckordError(error), `${JSON.stringify(text)}: ${String(error)}`).toBe(true)
              refused += 1
            }
          }
          const once = handled
          for (const text of accepted) await deliver(text)
          expect(handled).toBe(once)
        }
        expect(handled + refused).toBe(consumers.length * texts.length)
        expect(handled).toBeGreaterThan(texts.length)
      })
    })
  })
}

/** All texts of a record, joined. */
function seen({ destination, message }: { readonly destination: string; readonly message: Message<Uint8Array> }): string {
  const { id, type, source, subject, partitionkey } = message.attributes
  return JSON.stringify([destination, id, type, source, subject, partitionkey, decoder.decode(message.data)])
}

/** An error text is for people: characters that a column cannot hold are dropped or replaced, and long texts are truncated. */
function printable(text: string): string {
  return text.replaceAll(/[\0\ufffd]|\p{Surrogate}/gu, '').slice(0, 500)
}
