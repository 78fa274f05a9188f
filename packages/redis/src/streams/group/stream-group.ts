import type { DedicatedPort, RedisArgument, RedisPort, Reply, script } from '../../client/port.ts'
import { asList, says } from '../../client/reply.ts'
import type { RedisInternals } from '../../transaction/redis-internals.ts'
import { companionKey } from '../entries/stream-names.ts'
import * as scripts from './group-scripts.ts'

/** A delivery of an entry. */
export interface DeliveredEntry {
  readonly id: string
  /** `undefined`: it was deleted from the stream while it was pending, and is acked. */
  readonly fields: readonly Buffer[] | undefined
  /** Including this one. */
  readonly deliveries: number
}

export interface PendingEntry {
  readonly id: string
  readonly consumer: string
  readonly idle: number
  readonly deliveries: number
}

export type Verdict =
  | { readonly kind: 'ack'; readonly id: string; readonly deliveries: number }
  | { readonly kind: 'nack'; readonly id: string; readonly deliveries: number; readonly delay: number; readonly count: number }
  | { readonly kind: 'dead'; readonly id: string; readonly deliveries: number; readonly letter: readonly RedisArgument[] }

/** The consumer of nacked entries that are not due yet. No real consumer has this name. */
const waitingConsumer = 'ackord-waiting'

export interface GroupSettings {
  readonly stream: string
  readonly group: string
  readonly consumer: string
  /** The stream for rejected entries, if it is beside this one. */
  readonly deadLetter: string
}

/** The commands of one consumer of a group. It has no state. */
export class StreamGroup {
  readonly stream: string
  readonly group: string
  readonly consumer: string
  readonly #port: RedisPort
  readonly #retry: string
  readonly #deadLetter: string

  constructor(redis: RedisInternals, settings: GroupSettings) {
    this.stream = settings.stream
    this.group = settings.group
    this.consumer = settings.consumer
    this.#port = redis.port
    this.#retry = companionKey(redis.port.keyPrefix, settings.stream, `retry:${settings.group}`)
    this.#deadLetter = settings.deadLetter
  }

  /** Creates the group and the stream if they do not exist. */
  async create(from: '0' | '$'): Promise<void> {
    try {
      await this.#port.send({ name: 'XGROUP', args: ['CREATE', this.stream, this.group, from, 'MKSTREAM'], keys: [1] })
    } catch (error) {
      if (!says(error, 'BUSYGROUP')) throw error
    }
  }

  /** Reads entries that no consumer of the group has received. Waits for one, on a connection of its own. */
  async read(connection: DedicatedPort, count: number, block: number): Promise<readonly DeliveredEntry[]> {
    const args = ['GROUP', this.group, this.consumer, 'COUNT', String(count), 'BLOCK', String(block), 'STREAMS', this.stream, '>']
    const reply = await connection.send({ name: 'XREADGROUP', args, keys: [8] }, { binary: true })
    const [found] = asList(reply)
    return asList(asList(found)[1]).map((entry) => toEntry([...asList(entry), 1]))
  }

  /** Takes nacked entries that are due, and returns the milliseconds until the next one is. */
  async takeDue(limit: number): Promise<{ readonly entries: readonly DeliveredEntry[]; readonly next: number }> {
    const reply = await this.#evaluate(scripts.takeDue, [this.#retry], [String(limit)], true)
    const [taken, next] = asList(reply)
    return { entries: asList(taken).map(toEntry), next: Number(next) === -1 ? Infinity : Number(next) }
  }

  async takeOver(ids: readonly string[], idle: number, limit: number): Promise<readonly DeliveredEntry[]> {
    return asList(await this.#evaluate(scripts.takeOver, [this.#retry], [String(idle), String(limit), ...ids], true)).map(toEntry)
  }

  async takeAgain(id: string, deliveries: number): Promise<DeliveredEntry | 'GONE' | 'LOST'> {
    const reply = await this.#evaluate(scripts.takeAgain, [], [id, String(deliveries)], true)
    if (Array.isArray(reply)) return toEntry(reply)
    return String(reply) === 'GONE' ? 'GONE' : 'LOST'
  }

  /** For the owner of a shard; `LOST` if another instance owns it. `more`: where to go on, if there may be more. */
  async takeRange(
    lease: { readonly key: string; readonly token: string; readonly duration: number },
    range: { readonly from: string; readonly to: string; readonly limit: number; readonly known: readonly string[] },
  ): Promise<{ readonly entries: readonly DeliveredEntry[]; readonly more: string | undefined } | 'LOST'> {
    const { from, to, limit, known } = range
    const args = [lease.token, String(lease.duration), from, to, String(limit), ...known]
    const reply = await this.#evaluate(scripts.takeRange, [lease.key], args, true)
    if (!Array.isArray(reply)) return 'LOST'
    const [taken, more] = asList(reply)
    const last = String(more)
    return { entries: asList(taken).map(toEntry), more: last === '' ? undefined : last }
  }

  /** One page of pending entries. */
  async pending(from: string, count: number): Promise<readonly PendingEntry[]> {
    const reply = await this.#port.send({ name: 'XPENDING', args: [this.stream, this.group, from, '+', String(count)], keys: [0] })
    return asList(reply).map((entry) => {
      const [id, consumer, idle, deliveries] = asList(entry)
      return { id: String(id), consumer: String(consumer), idle: Number(idle), deliveries: Number(deliveries) }
    })
  }

  /** One answer per verdict: 'OK', 'GONE', 'LOST', or the error of the server. */
  async settle(verdicts: readonly Verdict[]): Promise<readonly string[]> {
    const args: RedisArgument[] = [waitingConsumer]
    for (const verdict of verdicts) {
      const more = valuesOf(verdict)
      args.push(verdict.kind, verdict.id, String(verdict.deliveries), String(more.length), ...more)
    }
    return asList(await this.#evaluate(scripts.settle, [this.#retry, this.#deadLetter], args)).map(String)
  }

  /** Returns the ids that this consumer no longer has. */
  async keep(ids: readonly string[]): Promise<readonly string[]> {
    return asList(await this.#evaluate(scripts.keep, [], ids)).map(String)
  }

  /** Releases all entries of this consumer, except these. */
  async giveBack(kept: readonly string[]): Promise<void> {
    const limit = 500
    let given = limit
    while (given >= limit) {
      given = Number(await this.#evaluate(scripts.giveBack, [this.#retry], [waitingConsumer, String(limit), ...kept]))
    }
  }

  async uncount(ids: readonly string[]): Promise<void> {
    await this.#evaluate(scripts.uncount, [], ids)
  }

  /** `undefined`: it is no longer in the stream. */
  async fetch(id: string): Promise<readonly Buffer[] | undefined> {
    const [entry] = asList(await this.#evaluate(scripts.fetch, [], [id], true))
    return entry === undefined ? undefined : (asList(asList(entry)[1]) as readonly Buffer[])
  }

  /** Other consumers without pending entries that received none for this long. A live one is created again with its next entry. */
  async removeDeadConsumers(idle: number): Promise<void> {
    const reply = await this.#port.send({ name: 'XINFO', args: ['CONSUMERS', this.stream, this.group], keys: [1] })
    for (const consumer of asList(reply)) {
      const facts = toFacts(asList(consumer))
      const name = facts.get('name') ?? ''
      if (name === this.consumer || name === waitingConsumer || Number(facts.get('idle')) < idle || facts.get('pending') !== '0') continue
      await this.#port.evaluate(scripts.removeConsumer, [this.stream], [this.group, name])
    }
  }

  /** Unless the consumer has pending entries. */
  async removeConsumer(): Promise<void> {
    await this.#evaluate(scripts.removeConsumer, [], [])
  }

  #evaluate(body: ReturnType<typeof script>, keys: readonly string[], args: readonly RedisArgument[], binary = false): Promise<Reply> {
    return this.#port.evaluate(body, [this.stream, ...keys], [this.group, this.consumer, ...args], { binary })
  }
}

function valuesOf(verdict: Verdict): readonly RedisArgument[] {
  if (verdict.kind === 'ack') return []
  return verdict.kind === 'nack' ? [String(verdict.delay), String(verdict.count)] : verdict.letter
}

function toEntry(reply: Reply): DeliveredEntry {
  const [id, fields, deliveries] = asList(reply)
  return {
    id: String(id),
    fields: Array.isArray(fields) ? (fields as readonly Buffer[]) : undefined,
    deliveries: Number(deliveries),
  }
}

/** Reads `[name, value, …]`, the server's form of an object. */
function toFacts(list: readonly Reply[]): ReadonlyMap<string, string> {
  return new Map(Array.from({ length: list.length / 2 }, (_, index) => [String(list[2 * index]), String(list[2 * index + 1])]))
}
